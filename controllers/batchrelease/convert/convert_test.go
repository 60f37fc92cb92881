// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"testing"

	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

func TestTheReferenceMoves(t *testing.T) {
	const (
		old = `{"apiVersion":"rollouts.kruise.io/v1alpha1","spec":{"targetReference":{"workloadRef":{"kind":"Deployment","name":"web"}},"releasePlan":{"batchPartition":1}}}`
		hub = `{"apiVersion":"rollouts.kruise.io/v1beta1","spec":{"workloadRef":{"kind":"Deployment","name":"web"},"releasePlan":{"batchPartition":1}}}`
	)
	for from, to := range map[string]string{old: hub, hub: old} {
		version := "rollouts.kruise.io/v1beta1"
		if to == old {
			version = "rollouts.kruise.io/v1alpha1"
		}
		got, err := Converter().Convert(t.Context(), []byte(from), version)
		if err != nil {
			t.Fatal(err)
		}
		testutil.SameJSON(t, version, string(got), to)
	}
}

func TestOddReferencesStay(t *testing.T) {
	for _, object := range []string{`{"apiVersion":"rollouts.kruise.io/v1alpha1"}`, `{"apiVersion":"rollouts.kruise.io/v1alpha1","spec":{"targetReference":3}}`} {
		hub, err := Converter().Convert(t.Context(), []byte(object), "rollouts.kruise.io/v1beta1")
		if err != nil {
			t.Fatal(err)
		}
		back, err := Converter().Convert(t.Context(), hub, "rollouts.kruise.io/v1alpha1")
		if err != nil {
			t.Fatal(err)
		}
		testutil.SameJSON(t, "there and back", string(back), object)
	}
}
