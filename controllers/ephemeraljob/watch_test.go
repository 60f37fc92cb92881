// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package ephemeraljob

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPodsTriggerNoPassOverAJobThatHasEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		status map[string]any
		want   bool
	}{
		"one without status":     {nil, false},
		"one that is under way":  {map[string]any{"phase": "Running"}, false},
		"one that has completed": {map[string]any{"completionTime": "2026-01-02T03:04:05Z"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ended(map[string]any{"status": tc.status}); got != tc.want {
				t.Errorf("ended: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestWhichChangesOfAPodMatter(t *testing.T) {
	container := []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "dbg"}}}
	cases := map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"nothing":                     {func(*corev1.Pod) {}, false},
		"its version and conditions":  {func(p *corev1.Pod) { p.ResourceVersion = "8"; p.Status.Conditions = make([]corev1.PodCondition, 1) }, false},
		"its own containers":          {func(p *corev1.Pod) { p.Status.ContainerStatuses = make([]corev1.ContainerStatus, 1) }, false},
		"labels":                      {func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }, true},
		"it has a node":               {func(p *corev1.Pod) { p.Spec.NodeName = "n1" }, true},
		"it runs":                     {func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, true},
		"it is being deleted":         {func(p *corev1.Pod) { p.DeletionTimestamp = &p.CreationTimestamp }, true},
		"ephemeral containers":        {func(p *corev1.Pod) { p.Spec.EphemeralContainers = container }, true},
		"what is reported about them": {func(p *corev1.Pod) { p.Status.EphemeralContainerStatuses = make([]corev1.ContainerStatus, 1) }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := &corev1.Pod{}
			after := before.DeepCopy()
			tc.change(after)
			if got := changed(before, after); got != tc.want {
				t.Errorf("matters: %v, want %v", got, tc.want)
			}
		})
	}
}
