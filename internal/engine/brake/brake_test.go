// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package brake

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
)

// workload is a Deployment at rest, with a Rollout.
func workload(image string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{
			"name": "web", "labels": map[string]any{shared.LabelWorkloadType: "deployment"}, "annotations": map[string]any{shared.AnnotationRollout: "web"},
		},
		"spec": map[string]any{
			"replicas": int64(3), "minReadySeconds": int64(5),
			"strategy":       map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": "25%", "maxUnavailable": int64(0)}},
			"updateStrategy": map[string]any{"type": "RollingUpdate"},
			"template":       map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"image": image}}}},
		},
	}}
}

// of gives a workload another kind.
func of(apiVersion, kind string, w *unstructured.Unstructured) *unstructured.Unstructured {
	w.SetAPIVersion(apiVersion)
	w.SetKind(kind)
	return w
}

func annotate(o *unstructured.Unstructured, key, value string) {
	all := maps.Clone(o.GetAnnotations())
	all[key] = value
	o.SetAnnotations(all)
}

func label(o *unstructured.Unstructured, id string) {
	all := maps.Clone(o.GetLabels())
	all[shared.RolloutID] = id
	o.SetLabels(all)
}

// identified gives both objects a rollout-id as label and as annotation; empty is none. Templated: the template differs, too.
func identified(templated bool, labels, annotations [2]string) func(old, now *unstructured.Unstructured) {
	return func(old, now *unstructured.Unstructured) {
		if !templated {
			now.Object["spec"] = old.Object["spec"]
		}
		for i, o := range []*unstructured.Unstructured{old, now} {
			if labels[i] != "" {
				label(o, labels[i])
			}
			if annotations[i] != "" {
				annotate(o, shared.RolloutID, annotations[i])
			}
		}
	}
}

func paused(o *unstructured.Unstructured) bool {
	value, _, _ := unstructured.NestedBool(o.Object, "spec", "paused")
	return value
}

const mark = `{"rolloutName":"web"}`

func TestWhatIsBraked(t *testing.T) {
	none, stays, other, goes := [2]string{}, [2]string{"7", "7"}, [2]string{"7", "8"}, [2]string{"7"}
	for name, tc := range map[string]struct {
		change func(old, now *unstructured.Unstructured)
		braked bool
	}{
		"another template": {func(_, _ *unstructured.Unstructured) {}, true},
		"no other template": {func(old, now *unstructured.Unstructured) {
			now.Object["spec"] = old.Object["spec"]
		}, false},
		"no replicas": {func(_, now *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(now.Object, int64(0), "spec", "replicas")
		}, false},
		"an annotation rollout-id that stays":           {identified(true, none, stays), false},
		"another annotation rollout-id":                 {identified(false, none, other), true},
		"a label rollout-id that stays":                 {identified(true, stays, none), true},
		"another label rollout-id":                      {identified(false, other, none), true},
		"another label beside an annotation that stays": {identified(true, other, stays), true},
		"a label and an annotation that stay":           {identified(true, stays, stays), false},
		"another annotation beside a label that stays":  {identified(false, stays, other), true},
		"a rollout-id that goes":                        {identified(false, goes, goes), false},
		"without a Rollout":                             {func(old, _ *unstructured.Unstructured) { old.SetAnnotations(nil) }, false},
		"by the operator":                               {func(_, now *unstructured.Unstructured) { annotate(now, shared.AnnotationSequence, "1") }, false},
		"by an undo that brings an old number": {func(old, now *unstructured.Unstructured) {
			annotate(old, shared.AnnotationSequence, "9")
			annotate(now, shared.AnnotationSequence, "3")
		}, true},
		"while it is deleted": {func(old, _ *unstructured.Unstructured) { old.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)}) }, false},
		"a manifest without label and annotations": {func(_, now *unstructured.Unstructured) {
			now.SetLabels(nil)
			now.SetAnnotations(nil)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			old, now := workload("web:1"), workload("web:2")
			tc.change(old, now)
			Brake(old, now)
			if got := paused(now); got != tc.braked {
				t.Errorf("braked: %t", got)
			}
			if tc.braked && (now.GetAnnotations()[shared.AnnotationInProgressing] != mark || now.GetLabels()[shared.LabelWorkloadType] != "deployment") {
				t.Errorf("got %v %v", now.GetLabels(), now.GetAnnotations())
			}
		})
	}
}

// In a release the numbers stay, whatever a manifest says.
func TestNumbersOfARelease(t *testing.T) {
	old, now := workload("web:2"), workload("web:2")
	annotate(old, shared.AnnotationInProgressing, mark)
	annotate(old, shared.AnnotationOriginal, "{}")
	_ = unstructured.SetNestedField(old.Object, int64(2147483646), "spec", "minReadySeconds")
	_ = unstructured.SetNestedField(old.Object, int64(1), "spec", "strategy", "rollingUpdate", "maxSurge")
	_ = unstructured.SetNestedField(now.Object, "Recreate", "spec", "strategy", "type")
	_ = unstructured.SetNestedField(now.Object, int64(9), "spec", "replicas")
	Brake(old, now)
	seconds, _, _ := unstructured.NestedInt64(now.Object, "spec", "minReadySeconds")
	surge, _, _ := unstructured.NestedInt64(now.Object, "spec", "strategy", "rollingUpdate", "maxSurge")
	kind, _, _ := unstructured.NestedString(now.Object, "spec", "strategy", "type")
	replicas, _, _ := unstructured.NestedInt64(now.Object, "spec", "replicas")
	if seconds != 2147483646 || surge != 1 || kind != "RollingUpdate" || replicas != 9 || now.GetAnnotations()[shared.AnnotationInProgressing] != mark {
		t.Errorf("got %v", now.Object)
	}
}

// Numbers that a user writes in a release are kept for its end, as far as they can be written back.
func TestNumbersThatAUserWritesInARelease(t *testing.T) {
	const kept = `{"maxSurge":"25%","maxUnavailable":0,"progressDeadlineSeconds":600}`
	noted := func(numbers string) string { return strings.TrimSuffix(numbers, "}") + `,"at":"12"}` }
	seconds, strategy := []string{"spec", "minReadySeconds"}, []string{"spec", "strategy", "rollingUpdate"}
	for name, tc := range map[string]struct {
		path  []string
		value any
		want  string
	}{
		"nothing":              {seconds, int64(5), kept},
		"minReadySeconds":      {seconds, int64(7), noted(`{"maxSurge":"25%","maxUnavailable":0,"minReadySeconds":7,"progressDeadlineSeconds":600}`)},
		"the release's own":    {seconds, int64(2147483646), kept},
		"maxSurge":             {append(strategy, "maxSurge"), "30%", noted(`{"maxSurge":"30%","maxUnavailable":0,"progressDeadlineSeconds":600}`)},
		"maxUnavailable":       {append(strategy, "maxUnavailable"), int64(2), noted(`{"maxSurge":"25%","maxUnavailable":2,"progressDeadlineSeconds":600}`)},
		"more than all":        {append(strategy, "maxUnavailable"), "101%", kept},
		"no number":            {append(strategy, "maxSurge"), `1","x":"`, kept},
		"fewer than none":      {append(strategy, "maxSurge"), int64(-1), kept},
		"no number at all":     {append(strategy, "maxSurge"), map[string]any{}, kept},
		"seconds for progress": {[]string{"spec", "progressDeadlineSeconds"}, int64(900), noted(`{"maxSurge":"25%","maxUnavailable":0,"progressDeadlineSeconds":900}`)},
		"another type":         {[]string{"spec", "strategy"}, map[string]any{"type": "Recreate"}, kept},
	} {
		t.Run(name, func(t *testing.T) {
			old, now := workload("web:2"), workload("web:2")
			annotate(old, shared.AnnotationInProgressing, mark)
			annotate(old, shared.AnnotationOriginal, kept)
			if err := unstructured.SetNestedField(now.Object, tc.value, tc.path...); err != nil {
				t.Fatal(err)
			}
			old.SetResourceVersion("12")
			annotate(now, shared.AnnotationOriginal, `{"maxSurge":"99%"}`) // an undo brings an old note back
			for range 2 {                                                  // the API server may ask again
				Brake(old, now)
			}
			if got := now.GetAnnotations()[shared.AnnotationOriginal]; got != tc.want {
				t.Errorf("kept %s", got)
			}
			if !reflect.DeepEqual(now.Object["spec"].(map[string]any)["strategy"], old.Object["spec"].(map[string]any)["strategy"]) {
				t.Errorf("the strategy is %v", now.Object["spec"])
			}
		})
	}
	// Nothing of the release stands there yet.
	old, now := workload("web:2"), workload("web:2")
	annotate(old, shared.AnnotationInProgressing, mark)
	_ = unstructured.SetNestedField(now.Object, int64(9), seconds...)
	Brake(old, now)
	if got, _, _ := unstructured.NestedInt64(now.Object, seconds...); got != 9 {
		t.Errorf("minReadySeconds is %d", got)
	}
}

// The Deployment controller keeps copies of annotations, and kubectl's undo brings them back.
func TestAnUndoBringsNoNotesBack(t *testing.T) {
	old, now := workload("web:2"), workload("web:2")
	annotate(now, shared.AnnotationInProgressing, mark)
	annotate(now, shared.AnnotationOriginal, "{}")
	annotate(now, "note", "of the user")
	Brake(old, now)
	if want := map[string]string{shared.AnnotationRollout: "web", "note": "of the user"}; !maps.Equal(now.GetAnnotations(), want) {
		t.Errorf("got %v", now.GetAnnotations())
	}
}

func TestWhoTakesTheLabelAwayTakesOver(t *testing.T) {
	old, now := workload("web:2"), workload("web:2")
	annotate(old, shared.AnnotationInProgressing, mark)
	now.SetLabels(nil)
	Brake(old, now)
	if len(now.GetLabels()) > 0 {
		t.Errorf("got %v", now.GetLabels())
	}
}

func TestEveryKindIsBraked(t *testing.T) {
	for kind, want := range map[[2]string]any{
		{"apps/v1", "StatefulSet"}: everyOrdinal, {"apps.kruise.io/v1beta1", "StatefulSet"}: everyOrdinal,
		{"apps.kruise.io/v1beta1", "DaemonSet"}: everyOrdinal, {"apps.kruise.io/v1beta1", "CloneSet"}: "100%",
	} {
		old, now := of(kind[0], kind[1], workload("web:1")), of(kind[0], kind[1], workload("web:2"))
		Brake(old, now)
		got, _, _ := unstructured.NestedFieldCopy(now.Object, "spec", "updateStrategy", "rollingUpdate", "partition")
		if got != want {
			t.Errorf("%s: partition %v", kind, got)
		}
		// In the release it stays.
		again := of(kind[0], kind[1], workload("web:2"))
		_ = unstructured.SetNestedField(now.Object, int64(2), "spec", "updateStrategy", "rollingUpdate", "partition")
		Brake(now, again)
		if got, _, _ := unstructured.NestedInt64(again.Object, "spec", "updateStrategy", "rollingUpdate", "partition"); got != 2 {
			t.Errorf("%s: partition %d in the release", kind, got)
		}
	}
	old, now := of("apps/v1", "DaemonSet", workload("web:1")), of("apps/v1", "DaemonSet", workload("web:2"))
	Brake(old, now)
	if kind, _, _ := unstructured.NestedString(now.Object, "spec", "updateStrategy", "type"); kind != "OnDelete" {
		t.Errorf("a DaemonSet is of type %s", kind)
	}
}

// TestTheSameTemplateWrittenInAnotherWay: a client in Go adds empty fields, and another one writes quantities in their shortest form. That is no
// release of a kind of ours, and takes a batch of one no pods.
func TestTheSameTemplateWrittenInAnotherWay(t *testing.T) {
	with := func(more map[string]any) *unstructured.Unstructured {
		w := of("apps.kruise.io/v1beta1", "CloneSet", workload("web:1"))
		container := map[string]any{"image": "web:1"}
		maps.Copy(container, more)
		_ = unstructured.SetNestedSlice(w.Object, []any{container}, "spec", "template", "spec", "containers")
		return w
	}
	resources := func(cpu string) map[string]any {
		return map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": cpu}}}
	}
	for name, c := range map[string]struct {
		old, now map[string]any
		brakes   bool
	}{
		"empty resources":     {nil, map[string]any{"resources": map[string]any{}, "env": []any{}}, false},
		"quantities":          {resources("1000m"), resources("1"), false},
		"other quantities":    {resources("1000m"), resources("2"), true},
		"hostile quantities":  {resources("1"), resources(strings.Repeat("9", 1<<20)), true},
		"what is no template": {nil, map[string]any{"env": "none"}, true},
	} {
		old, now := with(c.old), with(c.now)
		Brake(old, now)
		if _, braked := now.GetAnnotations()[shared.AnnotationInProgressing]; braked != c.brakes {
			t.Errorf("%s: braked is %v", name, braked)
		}
		old, now = with(c.old), with(c.now)
		annotate(old, shared.AnnotationInProgressing, "{}")
		_ = unstructured.SetNestedField(old.Object, int64(1), "spec", "updateStrategy", "rollingUpdate", "partition")
		Brake(old, now)
		if partition, _, _ := unstructured.NestedFieldCopy(now.Object, "spec", "updateStrategy", "rollingUpdate", "partition"); (partition == "100%") != c.brakes {
			t.Errorf("%s in a release: the partition is %v", name, partition)
		}
	}
}
