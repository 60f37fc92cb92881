// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package batchrelease

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

// TestAutoscalersAreHeld: what stood there before stands there again, and what somebody writes meanwhile stays.
func TestAutoscalersAreHeld(t *testing.T) {
	const noted = `"rollouts.kruise.io/original-scale-in"`
	for name, tc := range map[string]struct{ kind, before, held, meanwhile, after string }{
		"without behavior": {
			before: `{"metadata":{"annotations":{}},"spec":{}}`,
			held:   `{"metadata":{"annotations":{` + noted + `:"none"}},"spec":{"behavior":{"scaleDown":{"selectPolicy":"Disabled"}}}}`,
		},
		"with behavior": {
			before: `{"metadata":{"annotations":{}},"spec":{"behavior":{"scaleDown":{"selectPolicy":"Min","stabilizationWindowSeconds":9}}}}`,
			held:   `{"metadata":{"annotations":{` + noted + `:"Min"}},"spec":{"behavior":{"scaleDown":{"selectPolicy":"Disabled","stabilizationWindowSeconds":9}}}}`,
		},
		"changed meanwhile": {
			before: `{"metadata":{"annotations":{}},"spec":{}}`, held: `{"metadata":{"annotations":{` + noted + `:"none"}},"spec":{"behavior":{"scaleDown":{"selectPolicy":"Disabled"}}}}`,
			meanwhile: `{"metadata":{"annotations":{` + noted + `:"none"}},"spec":{"behavior":{"scaleDown":{"selectPolicy":"Max"}}}}`,
			after:     `{"metadata":{"annotations":{}},"spec":{"behavior":{"scaleDown":{"selectPolicy":"Max"}}}}`,
		},
		"of KEDA": {
			kind: "ScaledObject", before: `{"metadata":{"annotations":{}}}`,
			held: `{"metadata":{"annotations":{` + noted + `:"none","autoscaling.keda.sh/paused-scale-in":"true"}}}`,
		},
		"of KEDA, paused before": {
			kind: "ScaledObject", before: `{"metadata":{"annotations":{"autoscaling.keda.sh/paused-scale-in":"true"}}}`,
			held: `{"metadata":{"annotations":{` + noted + `:"true","autoscaling.keda.sh/paused-scale-in":"true"}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(text string) scaler {
				s := scaler{kind: schema.GroupVersionKind{Kind: "HorizontalPodAutoscaler"}, object: &unstructured.Unstructured{}}
				if tc.kind != "" {
					s.kind.Kind = tc.kind
				}
				if err := json.Unmarshal([]byte(text), &s.object.Object); err != nil {
					t.Fatal(err)
				}
				return s
			}
			patched := func(text string, change fields) string {
				patch, err := json.Marshal(change)
				if err != nil {
					t.Fatal(err)
				}
				after, err := jsonpatch.MergePatch([]byte(text), patch)
				if err != nil {
					t.Fatal(err)
				}
				return string(after)
			}
			held := patched(tc.before, of(tc.before).held())
			testutil.SameJSON(t, "held", held, tc.held)
			after := tc.before
			if tc.meanwhile != "" {
				held, after = tc.meanwhile, tc.after
			}
			before, is := of(held).before()
			if !is {
				t.Fatal("it is not held")
			}
			testutil.SameJSON(t, "freed", patched(held, of(held).freed(before)), after)
		})
	}
}
