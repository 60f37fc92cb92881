// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package batchrelease

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
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
			held := patched(tc.before, of(tc.before).change(true))
			testutil.SameJSON(t, "held", held, tc.held)
			after := tc.before
			if tc.meanwhile != "" {
				held, after = tc.meanwhile, tc.after
			}
			if _, is := of(held).before(); !is {
				t.Fatal("it is not held")
			}
			testutil.SameJSON(t, "freed", patched(held, of(held).change(false)), after)
		})
	}
}

// TestAnAutoscalerHasItsTargetAgain: OpenKruise had switched it off.
func TestAnAutoscalerHasItsTargetAgain(t *testing.T) {
	const target = `"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"NAME"}`
	for name, tc := range map[string]struct{ metadata, name, held, freed string }{
		"switched off": {
			"{}", "web-DisableByRollout",
			`{"metadata":{"annotations":{"rollouts.kruise.io/original-scale-in":"none"}},"spec":{"behavior":{"scaleDown":{"selectPolicy":"Disabled"}},"scaleTargetRef":{"name":"web"}}}`,
			`{"spec":{"scaleTargetRef":{"name":"web"}}}`,
		},
		"held, and switched off": {
			`{"annotations":{"rollouts.kruise.io/original-scale-in":"Min"}}`, "web-DisableByRollout", `{"spec":{"scaleTargetRef":{"name":"web"}}}`,
			`{"metadata":{"annotations":{"rollouts.kruise.io/original-scale-in":null}},"spec":{"scaleTargetRef":{"name":"web"}}}`,
		},
		"on":            {"{}", "web", `{"metadata":{"annotations":{"rollouts.kruise.io/original-scale-in":"none"}},"spec":{"behavior":{"scaleDown":{"selectPolicy":"Disabled"}}}}`, "{}"},
		"of another":    {"{}", "api-DisableByRollout", "", ""},
		"of a like one": {"{}", "web-2", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := &observed{}
			o.row, _ = rollable.Of("apps/v1", "Deployment")
			a := &unstructured.Unstructured{}
			if err := json.Unmarshal([]byte(`{"kind":"HorizontalPodAutoscaler","metadata":`+tc.metadata+`,"spec":{`+strings.ReplaceAll(target, "NAME", tc.name)+`}}`), &a.Object); err != nil {
				t.Fatal(err)
			}
			s, err := (&Reconciler{}).scalerOf(t.Context(), o, a, "web")
			if err != nil || (s == nil) != (tc.held == "") {
				t.Fatalf("it is %+v, %v", s, err)
			}
			if s == nil {
				return
			}
			for hold, want := range map[bool]string{true: tc.held, false: tc.freed} {
				got, err := json.Marshal(s.change(hold))
				if err != nil {
					t.Fatal(err)
				}
				testutil.SameJSON(t, fmt.Sprintf("held %t", hold), string(got), want)
			}
		})
	}
}
