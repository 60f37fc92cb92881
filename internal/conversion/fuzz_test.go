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
		`{"protectOperations":["EVICT"],"protectTotalReplicas":5,"ignoredPodSelector":{"matchLabels":{"a":"b"}}}`, `{"protectOperations":[7],"protectTotalReplicas":"x","ignoredPodSelector":[]}`,
		`{"updateStrategy":[],"scaleStrategy":7}`, `{"updateStrategy":{"rollingUpdate":null,"scatterStrategy":[{"key":"a"}]}}`,
	} {
		f.Add([]byte(seed), []byte(`{"name":"web"}`))
		f.Add([]byte(seed), []byte(`{"name":"web","annotations":{"operator.kruise.io/conversion-data":"{}"}}`))
		f.Add([]byte(seed), []byte(`{"name":"web","annotations":{"kruise.io/pub-protect-operations":" DELETE,x","pub.kruise.io/protect-total-replicas":"9","operator.kruise.io/ignored-pod-selector":"{}"}}`))
	}
	f.Fuzz(func(t *testing.T, spec, metadata []byte) {
		if !json.Valid(spec) || !json.Valid(metadata) {
			return
		}
		for _, of := range converters() {
			kind, convert, alpha, beta := of.Kind, of.Convert, of.Group+"/v1alpha1", of.Group+"/v1beta1"
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
