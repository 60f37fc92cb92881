// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"encoding/json"
	"testing"

	"github.com/kruise-operator/kruise-operator/internal/testutil/fuzzing"
)

// FuzzConversion converts objects of all converted kinds from one version to the other and back. What can be converted can be converted back, and
// there once more without another change.
func FuzzConversion(f *testing.F) {
	for _, seed := range []string{
		`null`, `{}`, `{"replicas":3,"updateStrategy":{"type":"InPlaceIfPossible","partition":"50%","maxSurge":1}}`,
		`{"updateStrategy":{"rollingUpdate":{"podUpdatePolicy":"RecreatePods","partition":1}},"scaleStrategy":{"podsToDelete":["a"]}}`,
		`{"updateStrategy":{"rollingUpdate":{"rollingUpdateType":"Surging","maxSurge":1,"partition":2,"paused":true}},"burstReplicas":"10%"}`,
		`{"namespace":"a","selector":{"matchLabels":{"app":"web"}},"containers":[{"name":"c","shareVolumePolicy":{"type":"enabled"}}],"patchPodMetadata":[{}]}`,
		`{"subsets":[{"name":"a","requiredNodeSelector":{"matchFields":[]},"preferredNodeSelectorTerms":[{"weight":1}],"patch":{"x":1.5}},null,7]}`,
		`{"requiredPersistentTopology":{"keys":["a"],"nodeTopologyKeys":7},"preferredPersistentTopology":[{"preference":{"nodeTopologyKeys":[]}},null,7]}`,
		`{"updateStrategy":[],"scaleStrategy":7}`, `{"updateStrategy":{"rollingUpdate":null,"scatterStrategy":[{"key":"a"}]}}`,
	} {
		f.Add([]byte(seed), []byte(`{"name":"web"}`))
		f.Add([]byte(seed), []byte(`{"name":"web","annotations":{"operator.kruise.io/conversion-data":"{}"}}`))
	}
	f.Fuzz(func(t *testing.T, spec, metadata []byte) {
		if !json.Valid(spec) || !json.Valid(metadata) {
			return
		}
		const alpha, beta = "apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"
		for _, of := range converters() {
			kind, convert := of.Kind, of.Convert
			for from, to := range map[string]string{alpha: beta, beta: alpha} {
				object := []byte(`{"apiVersion":"` + from + `","kind":"` + kind + `","metadata":` + string(metadata) + `,"spec":` + string(spec) + `}`)
				fuzzing.Within(t, len(object), func() {
					there, err := convert(t.Context(), object, to)
					if err != nil {
						return
					}
					back, err := convert(t.Context(), there, from)
					if err != nil {
						t.Fatalf("%s became %s, which cannot be converted back: %v", object, there, err)
					}
					again, err := convert(t.Context(), back, to)
					if err != nil {
						t.Fatalf("%s cannot be converted again: %v", back, err)
					}
					_ = again
				})
			}
		}
	})
}
