// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podstate

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
)

func TestAvailability(t *testing.T) {
	readyAt := func(second int) func(*corev1.Pod) {
		return func(p *corev1.Pod) { set(p, corev1.PodReady, corev1.ConditionTrue, second) }
	}
	cases := map[string]struct {
		change   func(*corev1.Pod)
		minReady time.Duration
		want     bool
		wantIn   time.Duration
	}{
		"a ready pod is available at once without a minimum":     {change: readyAt(20), want: true},
		"a pod that is not ready is not, and time cannot help":   {change: func(p *corev1.Pod) { set(p, corev1.PodReady, corev1.ConditionFalse, 0) }, minReady: time.Second},
		"a pod without conditions is not":                        {change: func(p *corev1.Pod) { p.Status.Conditions = nil }, minReady: time.Second},
		"a pod that is ready but not running is not":             {change: func(p *corev1.Pod) { readyAt(0)(p); p.Status.Phase = corev1.PodSucceeded }},
		"the rest of the minimum is what it waits for":           {change: readyAt(15), minReady: 10 * time.Second, wantIn: 5 * time.Second},
		"it is available when the minimum is over to the second": {change: readyAt(10), minReady: 10 * time.Second, want: true},
		"without a transition time it counts from the latest change of any condition": {
			change: func(p *corev1.Pod) {
				set(p, corev1.ContainersReady, corev1.ConditionTrue, 18)
				set(p, corev1.PodReady, corev1.ConditionTrue, 0)
				Condition(p, corev1.PodReady).LastTransitionTime = metav1.Time{}
			},
			minReady: 10 * time.Second, wantIn: 8 * time.Second,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := pod()
			tc.change(pod)
			got, in := Availability(pod, tc.minReady, at(20))
			if got != tc.want || in != tc.wantIn {
				t.Errorf("got %v in %s, want %v in %s", got, in, tc.want, tc.wantIn)
			}
		})
	}
}

func TestInitialConditions(t *testing.T) {
	pod := pod()
	pod.Status.Conditions = nil
	pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: shared.GateInPlaceUpdateReady}, corev1.PodReadinessGate{ConditionType: "example.io/other"})
	want := []corev1.PodCondition{
		{Type: shared.GateInPlaceUpdateReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at(5))},
		{Type: shared.GateKruisePodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at(5))},
	}
	if diff := cmp.Diff(want, InitialConditions(pod, at(5).Add(300*time.Millisecond))); diff != "" {
		t.Error(diff)
	}
	set(pod, shared.GateKruisePodReady, corev1.ConditionFalse, 0)
	if got := InitialConditions(pod, at(5)); len(got) != 1 || got[0].Type != shared.GateInPlaceUpdateReady {
		t.Errorf("a condition that exists is left alone, got %v", got)
	}
	pod.DeletionTimestamp = &metav1.Time{Time: at(1)}
	if got := InitialConditions(pod, at(5)); got != nil {
		t.Errorf("a terminating pod needs none, got %v", got)
	}
}

var (
	restart = shared.ReadinessHolder{UserAgent: "ContainerRecreateRequest", Key: "shop/restart-1"}
	hook    = shared.ReadinessHolder{UserAgent: "Lifecycle", Key: "preUpdateHook"}
)

const (
	restartHolds = `[{"userAgent":"ContainerRecreateRequest","key":"shop/restart-1"}]`
	hookHolds    = `[{"userAgent":"Lifecycle","key":"preUpdateHook"}]`
	bothHold     = `[{"userAgent":"ContainerRecreateRequest","key":"shop/restart-1"},{"userAgent":"Lifecycle","key":"preUpdateHook"}]`
)

func TestHoldAndRelease(t *testing.T) {
	hold := func(h shared.ReadinessHolder) func(*corev1.Pod) edit.Edit {
		return func(p *corev1.Pod) edit.Edit { return Hold(p, h, at(30)) }
	}
	release := func(hs ...shared.ReadinessHolder) func(*corev1.Pod) edit.Edit {
		return func(p *corev1.Pod) edit.Edit { return Release(p, at(30), hs...) }
	}
	condition := func(status corev1.ConditionStatus, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			set(p, shared.GateKruisePodReady, status, 10)
			Condition(p, shared.GateKruisePodReady).Message = message
		}
	}
	absent := func(p *corev1.Pod) { p.Status.Conditions = p.Status.Conditions[:2] }
	cases := map[string]struct {
		before  func(*corev1.Pod)
		do      func(*corev1.Pod) edit.Edit
		nothing bool
		status  corev1.ConditionStatus
		message string
		second  int // of the last transition
	}{
		"a hold on a pod in service takes it out":                              {condition("True", ""), hold(hook), false, "False", hookHolds, 30},
		"a hold before the condition exists writes False, not an empty status": {absent, hold(hook), false, "False", hookHolds, 30},
		"a second hold of the same holder writes nothing":                      {condition("False", hookHolds), hold(hook), true, "", "", 0},
		"a second holder joins the list in order, the transition time stays":   {condition("False", hookHolds), hold(restart), false, "False", bothHold, 10},
		"a condition with an empty status is repaired by the next hold":        {condition("", hookHolds), hold(hook), false, "False", hookHolds, 30},
		"one of two released leaves the pod out of service":                    {condition("False", bothHold), release(hook), false, "False", restartHolds, 10},
		"the last one released puts it back":                                   {condition("False", hookHolds), release(hook), false, "True", "[]", 30},
		"both can be released in one step":                                     {condition("False", bothHold), release(hook, restart), false, "True", "[]", 30},
		"releasing what nobody holds writes nothing":                           {condition("False", hookHolds), release(restart), true, "", "", 0},
		"releasing on a pod in service writes nothing":                         {condition("True", "[]"), release(restart), true, "", "", 0},
		"releasing without a condition writes nothing":                         {absent, release(restart), true, "", "", 0},
		"an unreadable message counts as an empty list for a hold":             {condition("False", "{oops"), hold(hook), false, "False", hookHolds, 10},
		"an unreadable message counts as an empty list for a release":          {condition("False", "{oops"), release(hook), true, "", "", 0},
		"a pod without the gate is left alone":                                 {func(p *corev1.Pod) { p.Spec.ReadinessGates = nil }, hold(hook), true, "", "", 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := pod()
			tc.before(pod)
			e := tc.do(pod)
			if e.IsZero() != tc.nothing {
				t.Fatalf("got %+v", e)
			}
			if tc.nothing {
				return
			}
			after := e.Apply(pod)
			got := Condition(after, shared.GateKruisePodReady)
			want := &corev1.PodCondition{Type: shared.GateKruisePodReady, Status: tc.status, Message: tc.message, LastTransitionTime: metav1.NewTime(at(tc.second))}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if requests := e.Requests(pod); len(requests) != 1 || requests[0].Subresource != edit.SubresourceStatus {
				t.Errorf("all of it should be one status patch, got %d", len(requests))
			}
		})
	}
}

func TestHoldMakesThePodUnreadyInTheSameWrite(t *testing.T) {
	pod := pod()
	Condition(pod, corev1.PodReady).ObservedGeneration = 4
	after := Hold(pod, hook, at(30)).Apply(pod)
	want := &corev1.PodCondition{
		Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: shared.ReasonReadinessGatesNotReady,
		Message:            `the status of pod readiness gate "KruisePodReady" is not "True", but False`,
		LastTransitionTime: metav1.NewTime(at(30)), ObservedGeneration: 4,
	}
	if diff := cmp.Diff(want, Condition(after, corev1.PodReady)); diff != "" {
		t.Error(diff)
	}
	back := Release(after, at(40), hook).Apply(after)
	if Ready(back) {
		t.Error("making the pod Ready again is the kubelet's")
	}
}

func TestOutOfService(t *testing.T) {
	gateFalse := []corev1.PodCondition{{Type: shared.GateInPlaceUpdateReady, Status: corev1.ConditionFalse}}
	cases := map[string]struct {
		change  func(*corev1.Pod)
		changed []corev1.PodCondition
		want    string
	}{
		"a gate that becomes False makes the pod unready": {
			changed: gateFalse, want: `the status of pod readiness gate "InPlaceUpdateReady" is not "True", but False`,
		},
		"all gates that are not True are named in the order of the spec": {
			change:  func(p *corev1.Pod) { set(p, shared.GateKruisePodReady, "", 0) },
			changed: gateFalse,
			want:    `the status of pod readiness gate "KruisePodReady" is not "True", but , the status of pod readiness gate "InPlaceUpdateReady" is not "True", but False`,
		},
		"a gate without a condition counts as not True": {
			change: func(p *corev1.Pod) {
				p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: "example.io/x"})
			},
			want: `corresponding condition of pod readiness gate "example.io/x" does not exist.`,
		},
		"nothing to do while all gates are True": {},
		"nothing to do when the containers are not ready: the pod is not either, for another reason": {
			change: func(p *corev1.Pod) { set(p, corev1.ContainersReady, corev1.ConditionFalse, 0) }, changed: gateFalse,
		},
		"nothing to do when the pod is unready already": {
			change: func(p *corev1.Pod) { set(p, corev1.PodReady, corev1.ConditionFalse, 0) }, changed: gateFalse,
		},
		"nothing to do before the kubelet wrote conditions": {
			change: func(p *corev1.Pod) { p.Status.Conditions = nil }, changed: gateFalse,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := pod()
			if tc.change != nil {
				tc.change(pod)
			}
			got := ""
			if ready := OutOfService(pod, tc.changed, at(30)); ready != nil {
				got = ready.Message
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A pod that OpenKruise holds at an update hook, as it wrote it.
func TestHoldIsByteForByteWhatOpenKruiseWrites(t *testing.T) {
	body, err := os.ReadFile("testdata/cloneset-midway_cache-rnh8r.yaml")
	if err != nil {
		t.Fatal(err)
	}
	held := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(body, held); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]shared.ReadinessHolder{hook}, Holders(held)); diff != "" {
		t.Error(diff)
	}
	if !Hold(held, hook, at(30)).IsZero() {
		t.Error("the pod is held already")
	}

	wantHold, wantReady := *Condition(held, shared.GateKruisePodReady), *Condition(held, corev1.PodReady)
	now := wantHold.LastTransitionTime.Time
	wantReady.LastTransitionTime = wantHold.LastTransitionTime // OpenKruise leaves it out; we do not
	before := held.DeepCopy()
	*Condition(before, shared.GateKruisePodReady) = corev1.PodCondition{Type: shared.GateKruisePodReady, Status: corev1.ConditionTrue}
	*Condition(before, corev1.PodReady) = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, ObservedGeneration: 1}
	after := Hold(before, hook, now).Apply(before)
	if diff := cmp.Diff(wantHold, *Condition(after, shared.GateKruisePodReady)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(wantReady, *Condition(after, corev1.PodReady)); diff != "" {
		t.Error(diff)
	}
}

// pod is running and ready with both gates True.
func pod() *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "u1", CreationTimestamp: metav1.NewTime(at(0))},
		Spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{
			{ConditionType: shared.GateKruisePodReady}, {ConditionType: shared.GateInPlaceUpdateReady},
		}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, conditionType := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady, shared.GateKruisePodReady, shared.GateInPlaceUpdateReady} {
		set(p, conditionType, corev1.ConditionTrue, 0)
	}
	return p
}

func set(p *corev1.Pod, conditionType corev1.PodConditionType, status corev1.ConditionStatus, second int) {
	var e edit.Edit
	e.SetCondition(corev1.PodCondition{Type: conditionType, Status: status, LastTransitionTime: metav1.NewTime(at(second))})
	*p = *e.Apply(p)
}

func at(second int) time.Time {
	return time.Date(2026, 1, 1, 10, 0, second, 0, time.UTC)
}
