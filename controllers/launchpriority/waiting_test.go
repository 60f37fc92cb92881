// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package launchpriority

import (
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// A long wait is told once, and again when the pod waits at another priority.
func TestALongWaitIsToldOnce(t *testing.T) {
	clock, recorder := clocktesting.NewFakePassiveClock(time.Unix(2e9, 0)), events.NewFakeRecorder(10)
	r := &reconciler{Dependencies: workload.Dependencies{Clock: clock, Recorder: recorder}, waiting: newWaiting()}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "this"}}
	for i, name := range []string{"db", "app", "log"} {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Env: []corev1.EnvVar{launch.Variable(pod.Name, -i, "")}})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name})
	}
	begin := func(i int, ready bool) {
		pod.Status.ContainerStatuses[i].ContainerID, pod.Status.ContainerStatuses[i].Ready = "containerd://x", ready
		pod.Status.ContainerStatuses[i].State.Running = &corev1.ContainerStateRunning{}
	}
	told := func(want string) {
		t.Helper()
		select {
		case event := <-recorder.Events:
			if want == "" || !strings.HasPrefix(event, "Warning LaunchPriorityWaiting "+want) {
				t.Errorf("event %q, want %q", event, want)
			}
		default:
			if want != "" {
				t.Errorf("no event, want %q", want)
			}
		}
	}
	begin(0, false)
	if wait := r.warnWaiting(pod); wait != waitTimeout {
		t.Errorf("looked at again after %s", wait)
	}
	told("")
	for _, want := range []string{"Containers app, log start when these are ready", ""} {
		clock.SetTime(clock.Now().Add(waitTimeout))
		r.warnWaiting(pod)
		told(want)
	}
	begin(0, true)
	begin(1, false)
	r.warnWaiting(pod)
	told("")
	clock.SetTime(clock.Now().Add(waitTimeout))
	r.warnWaiting(pod)
	told("Containers log start when these are ready")
}

func TestWaitingPodsAreCounted(t *testing.T) {
	w := newWaiting()
	begun := time.Unix(2e9, 0)
	pod := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: name} }
	expect := func(what string, short, long float64) {
		t.Helper()
		got := map[string]float64{}
		w.count(func(value float64, labels ...string) { got[labels[0]] = value })
		if want := map[string]float64{"false": short, "true": long}; !maps.Equal(got, want) {
			t.Errorf("%s: %v pods by long, want %v", what, got, want)
		}
	}
	expect("nobody waits", 0, 0)
	for _, name := range []string{"a", "b", "c"} {
		w.saw(pod(name), "u", 0, begun)
	}
	expect("three have begun to", 3, 0)
	for range 2 {
		w.saw(pod("a"), "u", 0, begun.Add(waitTimeout))
	}
	w.saw(pod("b"), "u", 0, begun.Add(waitTimeout))
	expect("two do for long", 1, 2)
	w.saw(pod("a"), "u", -1, begun.Add(waitTimeout))
	expect("one is at its next priority", 2, 1)
	w.saw(pod("b"), "again", 0, begun.Add(waitTimeout))
	expect("one was created again", 3, 0)
	w.saw(pod("c"), "u", 0, begun.Add(waitTimeout))
	for range 2 {
		w.forget(pod("c"))
	}
	w.forget(pod("gone"))
	expect("one has started", 2, 0)
}
