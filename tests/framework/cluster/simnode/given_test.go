// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// look takes a pod one round on at a time, writes the report into it as the node would, and returns when to look again.
func look(t *testing.T, s *simulation, pod *corev1.Pod, now time.Time) time.Time {
	t.Helper()
	b, err := behaviorOf(pod, Delays{Terminate: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	options, err := Options{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	v := &view{pod: pod, behavior: b, options: &options, now: now}
	s.round(v)
	pod.Status = s.report(pod, false)
	s.written()
	return v.wake
}

// TestAFinalPhaseThatOthersWriteStays shows a kubelet's reaction: the phase stays, the
// containers end after their grace period, and their ends change nothing.
func TestAFinalPhaseThatOthersWriteStays(t *testing.T) {
	grace := int64(10)
	pod := &corev1.Pod{}
	pod.UID = "uid"
	pod.Annotations = map[string]string{CompleteAfter: "never", ExitCode: "3"}
	pod.Spec.RestartPolicy, pod.Spec.TerminationGracePeriodSeconds = corev1.RestartPolicyNever, &grace
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "a"}, {Name: "side", Image: "b"}}
	now := time.Unix(1000, 0)
	s := newSimulation(pod, "10.0.0.1", "10.1.0.1", now)
	for range 3 {
		look(t, s, pod, now)
	}
	if pod.Status.Phase != corev1.PodRunning {
		t.Fatalf("it begins as %+v", pod.Status)
	}

	pod.Status.Phase, pod.Status.Reason = corev1.PodSucceeded, "Given"
	wake := look(t, s, pod, now)
	if pod.Status.Phase != corev1.PodSucceeded || pod.Status.Reason != "Given" {
		t.Errorf("the node wrote its own phase over the final one: %s, reason %q", pod.Status.Phase, pod.Status.Reason)
	}
	if side := pod.Status.ContainerStatuses[1].State; side.Running == nil {
		t.Errorf("the sidecar has no grace period: %+v", side)
	}
	if want := now.Add(10 * time.Second); !wake.Equal(want) {
		t.Errorf("the next look is at %s, want the end of the grace period at %s", wake, want)
	}
	look(t, s, pod, wake)
	if side := pod.Status.ContainerStatuses[1].State.Terminated; side == nil || side.ExitCode != 3 {
		t.Errorf("the sidecar goes on after its grace period: %+v", pod.Status.ContainerStatuses[1].State)
	}
	look(t, s, pod, wake.Add(time.Hour))
	if pod.Status.Phase != corev1.PodSucceeded {
		t.Errorf("the exit code of a stopped container made it %s", pod.Status.Phase)
	}
}
