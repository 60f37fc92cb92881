// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/randfill"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

func stateJSON(version, spec string) string {
	return `{"apiVersion":"apps.kruise.io/` + version + `","kind":"PersistentPodState","metadata":{"name":"ring"},"spec":{` + spec + `},"status":{"observedGeneration":1,"keys":["kept"]}}`
}

func TestPersistentPodStateConversion(t *testing.T) {
	for name, tc := range map[string]struct{ v1alpha1, v1beta1 string }{
		"lists of keys have another name": {
			`"requiredPersistentTopology":{"nodeTopologyKeys":["zone"]},"preferredPersistentTopology":[{"weight":7,"preference":{"nodeTopologyKeys":["host","rack"]}},{"weight":1,"preference":{"nodeTopologyKeys":[]}}]`,
			`"requiredPersistentTopology":{"keys":["zone"]},"preferredPersistentTopology":[{"weight":7,"preference":{"keys":["host","rack"]}},{"weight":1,"preference":{"keys":[]}}]`,
		},
		"all else passes through": {
			`"targetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db"},"persistentPodAnnotations":[{"key":"keys"}],"madeUp":1.50`,
			`"targetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db"},"persistentPodAnnotations":[{"key":"keys"}],"madeUp":1.50`,
		},
		"nothing at all":       {``, ``},
		"terms of wrong types": {`"requiredPersistentTopology":7,"preferredPersistentTopology":["x",{"preference":"y"}]`, `"requiredPersistentTopology":7,"preferredPersistentTopology":["x",{"preference":"y"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			old, stored := stateJSON("v1alpha1", tc.v1alpha1), stateJSON("v1beta1", tc.v1beta1)
			hub, err := Converter().Convert(t.Context(), []byte(old), v1beta1.GroupVersion().String())
			if err != nil {
				t.Fatal(err)
			}
			testutil.SameJSON(t, "v1beta1", string(hub), stored)
			spoke, err := Converter().Convert(t.Context(), []byte(stored), v1alpha1.GroupVersion().String())
			if err != nil {
				t.Fatal(err)
			}
			testutil.SameJSON(t, "v1alpha1", string(spoke), old)
		})
	}
}

func TestPersistentPodStatesComeBackAsTheyWere(t *testing.T) {
	for seed := range int64(300) {
		before := &v1beta1.PersistentPodState{}
		randfill.NewWithSeed(seed).NilChance(.4).NumElements(0, 3).Fill(&before.Spec)
		before.APIVersion, before.Kind = v1beta1.GroupVersion().String(), "PersistentPodState"
		text, err := json.Marshal(before)
		if err != nil {
			t.Fatal(err)
		}
		for _, version := range []string{v1alpha1.GroupVersion().String(), v1beta1.GroupVersion().String()} {
			if text, err = Converter().Convert(t.Context(), text, version); err != nil {
				t.Fatalf("seed %d: %s", seed, err)
			}
		}
		after := &v1beta1.PersistentPodState{}
		if err := json.Unmarshal(text, after); err != nil || !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
			t.Fatalf("seed %d, error %v (-before +after):\n%s", seed, err, cmp.Diff(before.Spec, after.Spec))
		}
	}
}
