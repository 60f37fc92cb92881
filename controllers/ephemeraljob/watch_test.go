// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package ephemeraljob

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestWhomAPodWakes(t *testing.T) {
	job := func(selector map[string]any, status map[string]any) map[string]any {
		return map[string]any{"spec": map[string]any{"selector": selector}, "status": status}
	}
	web := map[string]any{"matchLabels": map[string]any{"app": "web"}}
	cases := map[string]struct {
		job  map[string]any
		want bool
	}{
		"a job that selects it":      {job(web, nil), true},
		"one that is under way":      {job(web, map[string]any{"phase": "Running"}), true},
		"one that selects others":    {job(map[string]any{"matchLabels": map[string]any{"app": "db"}}, nil), false},
		"one that has ended":         {job(web, map[string]any{"completionTime": "2026-01-02T03:04:05Z"}), false},
		"one with an empty selector": {job(map[string]any{}, nil), false},
		"one without a selector":     {map[string]any{"spec": map[string]any{}}, false},
		"one with a bad selector":    {job(map[string]any{"matchLabels": "app"}, nil), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := selects(tc.job, labels.Set{"app": "web"}); got != tc.want {
				t.Errorf("wakes it: %v, want %v", got, tc.want)
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
