// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
)

// workloadWith is an object with a spec, labels and annotations.
func workloadWith(kind string, spec map[string]any, labels, annotations map[string]string) *unstructured.Unstructured {
	w := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": kind, "spec": spec}}
	w.SetName("web")
	w.SetLabels(labels)
	w.SetAnnotations(annotations)
	return w
}

// What is held goes on before the label goes: without it nothing would.
func TestWhatLettingGoWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		kind string
		spec map[string]any
		// field is what a held one gets another value of.
		field string
	}{
		"at rest":            {"Deployment", map[string]any{"paused": true}, ""},
		"a held Deployment":  {"Deployment", map[string]any{"paused": true}, "paused"},
		"a held StatefulSet": {"StatefulSet", map[string]any{"updateStrategy": map[string]any{"rollingUpdate": map[string]any{"partition": int64(32767)}}}, "updateStrategy"},
	} {
		t.Run(name, func(t *testing.T) {
			notes := map[string]string{shared.AnnotationRollout: "web", shared.AnnotationSequence: "4"}
			if tc.field != "" {
				notes[shared.AnnotationInProgressing] = "{}"
			}
			row, _ := rollable.Of("apps/v1", tc.kind)
			all := abandoning(workloadWith(tc.kind, tc.spec, map[string]string{shared.LabelWorkloadType: row.Type}, notes))
			if tc.field == "" {
				if len(all) != 2 || all[0]["spec"] != nil {
					t.Errorf("got %v", all)
				}
				return
			}
			spec, _ := all[0]["spec"].(map[string]any)
			if _, written := spec[tc.field]; len(all) != 3 || !written {
				t.Errorf("the first of %d writes is %v", len(all), all[0])
			}
			number, _, _ := unstructured.NestedString(all[0], "metadata", "annotations", shared.AnnotationSequence)
			if number != "5" {
				t.Errorf("the brake does not let it pass: %q", number)
			}
		})
	}
}

// A workload that comes under the brake gets its label and notes, and what it has besides stays.
func TestWhatAnnouncingWrites(t *testing.T) {
	row, _ := rollable.Of("apps/v1", "Deployment")
	for name, tc := range map[string]struct {
		labels, notes map[string]string
		number        string
	}{
		"for the first time": {nil, nil, "1"},
		"again":              {map[string]string{"app": "web"}, map[string]string{shared.AnnotationSequence: "41", shared.AnnotationRollout: "other"}, "42"},
		"with a wrong note":  {nil, map[string]string{shared.AnnotationSequence: "many"}, "1"},
	} {
		all := guarding(row, workloadWith("Deployment", map[string]any{}, tc.labels, tc.notes), "shop", false)
		if len(all) != 1 {
			t.Fatalf("%s: %v", name, all)
		}
		annotations, _, _ := unstructured.NestedStringMap(all[0], "metadata", "annotations")
		labels, _, _ := unstructured.NestedStringMap(all[0], "metadata", "labels")
		if annotations[shared.AnnotationRollout] != "shop" || annotations[shared.AnnotationSequence] != tc.number || len(labels) != 1 || labels[shared.LabelWorkloadType] != row.Type {
			t.Errorf("%s: %v", name, all[0])
		}
	}
}

// The label of a workload wins over its annotation, and what its user holds does not roll.
func TestWhatIsReadOfAWorkload(t *testing.T) {
	for want, w := range map[string]*unstructured.Unstructured{
		"":      workloadWith("Deployment", nil, nil, nil),
		"note":  workloadWith("Deployment", nil, nil, map[string]string{shared.RolloutID: "note"}),
		"label": workloadWith("Deployment", nil, map[string]string{shared.RolloutID: "label"}, map[string]string{shared.RolloutID: "note"}),
	} {
		if got := rollable.RolloutID(w); got != want {
			t.Errorf("the id is %q instead of %q", got, want)
		}
	}
	for name, tc := range map[string]struct {
		spec map[string]any
		want bool
	}{
		"as usual":               {map[string]any{}, true},
		"paused":                 {map[string]any{"paused": true}, false},
		"paused by the strategy": {map[string]any{"updateStrategy": map[string]any{"rollingUpdate": map[string]any{"paused": true}}}, false},
		"by deletion":            {map[string]any{"updateStrategy": map[string]any{"type": "OnDelete"}}, false},
		"rolling update":         {map[string]any{"updateStrategy": map[string]any{"type": "RollingUpdate"}}, true},
	} {
		if got := rolls(workloadWith("DaemonSet", tc.spec, nil, nil)); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	for name, tc := range map[string]struct {
		ref  map[string]any
		want bool
	}{
		"the same":         {map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, true},
		"another name":     {map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}, false},
		"another group":    {map[string]any{"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"}, false},
		"an unknown kind":  {map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}, false},
		"without a target": {nil, false},
	} {
		rollout := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
		if tc.ref != nil {
			rollout.Object["spec"] = map[string]any{"workloadRef": tc.ref}
		}
		row, _ := rollable.Of("apps/v1", "Deployment")
		if got := refersTo(rollout, row.Kind.GroupKind(), "web"); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
