// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

func TestHooked(t *testing.T) {
	hook := &shared.LifecycleHook{
		LabelsHandler:     map[string]string{"example.io/drain": "true", "example.io/other": "x"},
		FinalizersHandler: []string{"example.io/unregister"},
	}
	cases := map[string]struct {
		hook     *shared.LifecycleHook
		pod      *corev1.Pod
		any, all bool
	}{
		"no hook hooks nothing":                                 {nil, pod(nil), false, false},
		"an empty hook hooks nothing, and all of it matches":    {&shared.LifecycleHook{}, pod(nil), false, true},
		"one label is enough to be hooked":                      {hook, pod(map[string]string{"example.io/drain": "true"}), true, false},
		"a label with another value does not count":             {hook, pod(map[string]string{"example.io/drain": "no"}), false, false},
		"one finalizer is enough to be hooked":                  {hook, pod(nil, "example.io/unregister"), true, false},
		"all labels without the finalizer are not all":          {hook, pod(map[string]string{"example.io/drain": "true", "example.io/other": "x"}), true, false},
		"all of it is all":                                      {hook, pod(map[string]string{"example.io/drain": "true", "example.io/other": "x"}, "a/b", "example.io/unregister"), true, true},
		"a hook for an empty value needs the label to be there": {&shared.LifecycleHook{LabelsHandler: map[string]string{"k": ""}}, pod(nil), false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Hooked(tc.hook, tc.pod); got != tc.any {
				t.Errorf("Hooked is %v", got)
			}
			if got := AllHooked(tc.hook, tc.pod); got != tc.all {
				t.Errorf("AllHooked is %v", got)
			}
		})
	}
}

func TestTo(t *testing.T) {
	p := pod(nil)
	after := To(p, shared.StateUpdating, at(5)).Apply(p)
	if StateOf(after) != shared.StateUpdating || after.Annotations[shared.AnnotationLifecycleTimestamp] != "2026-01-01T10:00:05Z" {
		t.Errorf("got %v %v", after.Labels, after.Annotations)
	}
	if e := To(after, shared.StateUpdating, at(9)); !e.IsZero() {
		t.Errorf("a pod that is there already needs nothing, got %+v", e)
	}
}

func TestTransition(t *testing.T) {
	hooks := &shared.Lifecycle{
		InPlaceUpdate: &shared.LifecycleHook{FinalizersHandler: []string{"example.io/drain"}, LabelsHandler: map[string]string{"example.io/hook": "on"}, MarkPodNotReady: true},
		PreDelete:     &shared.LifecycleHook{FinalizersHandler: []string{"example.io/save"}, MarkPodNotReady: true},
	}
	none := &shared.Lifecycle{}
	silent := &shared.Lifecycle{InPlaceUpdate: &shared.LifecycleHook{}, PreDelete: &shared.LifecycleHook{}}
	const (
		updateHeld = `[{"userAgent":"Lifecycle","key":"preUpdateHook"}]`
		deleteHeld = `[{"userAgent":"Lifecycle","key":"preDeleteHook"}]`
	)
	cases := map[string]struct {
		hooks    *shared.Lifecycle
		from, to shared.LifecycleState
		held     string // before
		want     string // after; empty: the condition was not written
		rehooked bool
	}{
		"waiting for an update takes the pod out of service":              {hooks, "Normal", "PreparingUpdate", "", updateHeld, false},
		"waiting without markPodNotReady leaves it in service":            {silent, "Normal", "PreparingUpdate", "", "", false},
		"without hooks nothing is held":                                   {none, "Normal", "PreparingUpdate", "", "", false},
		"the hold lasts while the containers change":                      {hooks, "PreparingUpdate", "Updating", updateHeld, updateHeld, false},
		"it ends when the update is done":                                 {hooks, "Updating", "Updated", updateHeld, "[]", false},
		"it ends when the hook was complete at once":                      {hooks, "Updating", "Normal", updateHeld, "[]", false},
		"it ends when the template is rolled back while hooked":           {hooks, "PreparingUpdate", "Normal", updateHeld, "[]", false},
		"it ends even if markPodNotReady was switched off meanwhile":      {silent, "Updating", "Updated", updateHeld, "[]", false},
		"it ends even if the hooks were removed meanwhile":                {none, "Updating", "Normal", updateHeld, "[]", false},
		"a hold that leaked ends in Normal":                               {hooks, "Normal", "Normal", updateHeld, "[]", false},
		"an updated pod that is updated again is hooked again":            {hooks, "Updated", "PreparingUpdate", "", updateHeld, true},
		"waiting for deletion takes the pod out of service":               {hooks, "Normal", "PreparingDelete", "", deleteHeld, false},
		"deletion in the middle of an update swaps the holds in one step": {hooks, "PreparingUpdate", "PreparingDelete", updateHeld, deleteHeld, false},
		"the hold stays while the pod waits for deletion":                 {hooks, "PreparingDelete", "PreparingDelete", deleteHeld, deleteHeld, false},
		"a canceled deletion puts the pod back":                           {hooks, "PreparingDelete", "PreparingNormal", deleteHeld, "[]", false},
		"a canceled deletion puts it back without hooks too":              {none, "PreparingDelete", "Normal", deleteHeld, "[]", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := pod(map[string]string{shared.LabelLifecycleState: string(tc.from)})
			if tc.held != "" {
				condition := podstate.Condition(p, shared.GateKruisePodReady)
				condition.Status, condition.Message = corev1.ConditionFalse, tc.held
			}
			e := Transition(tc.hooks, p, tc.to, at(5))
			after := e.Apply(p)
			if StateOf(after) != tc.to {
				t.Errorf("state is %s", StateOf(after))
			}
			condition := podstate.Condition(after, shared.GateKruisePodReady)
			wantStatus := corev1.ConditionTrue
			if tc.want != "" && tc.want != "[]" {
				wantStatus = corev1.ConditionFalse
			}
			if diff := cmp.Diff(tc.want, condition.Message); diff != "" || condition.Status != wantStatus {
				t.Errorf("status %s, message %s", condition.Status, diff)
			}
			hooked := AllHooked(hooks.InPlaceUpdate, after)
			if hooked != tc.rehooked {
				t.Errorf("hooked again: %v", hooked)
			}
			if n := len(e.Requests(p)); n > 1 {
				t.Errorf("needs %d requests", n)
			}
		})
	}
}

func TestTransitionOfAPodWithoutTheGateHoldsNothing(t *testing.T) {
	p := pod(nil)
	p.Spec.ReadinessGates = nil
	hooks := &shared.Lifecycle{PreDelete: &shared.LifecycleHook{MarkPodNotReady: true}}
	if e := Transition(hooks, p, shared.StatePreparingDelete, at(5)); len(e.Conditions) != 0 {
		t.Errorf("got %v", e.Conditions)
	}
}

func pod(labels map[string]string, finalizers ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", Labels: labels, Finalizers: finalizers},
		Spec:       corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: shared.GateKruisePodReady}}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: shared.GateKruisePodReady, Status: corev1.ConditionTrue}}},
	}
}

func at(second int) time.Time { return time.Date(2026, 1, 1, 10, 0, second, 0, time.UTC) }
