// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagepulljob

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

func TestANodeImageTriggersPassesOverJobsOfAllItsTags(t *testing.T) {
	entry := func(namespace string) map[string]any {
		owner := map[string]any{"kind": "ImagePullJob", "namespace": namespace, "name": "warm", "uid": namespace}
		return map[string]any{"tags": []any{map[string]any{"tag": "1", "ownerReferences": []any{owner, owner}}}}
	}
	stored := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"images": map[string]any{"web": entry("shop")}, "namespacedImages": map[string]any{"bank/web": entry("bank")},
	}}}
	want := sets.New(types.NamespacedName{Namespace: "shop", Name: "warm"}, types.NamespacedName{Namespace: "bank", Name: "warm"})
	if got := jobsOf(t.Context(), stored); len(got) != 2 || !want.HasAll(got...) {
		t.Errorf("it triggers passes over %v, want %v", got, want.UnsortedList())
	}
}

func TestWhichChangesOfAPodTriggerPassesOverJobs(t *testing.T) {
	cases := map[string]struct {
		change   func(*corev1.Pod)
		triggers bool
	}{
		"it is bound to a node":      {func(p *corev1.Pod) { p.Spec.NodeName = "n1" }, true},
		"it gets another label":      {func(p *corev1.Pod) { p.Labels = map[string]string{"app": "b"} }, true},
		"it ends":                    {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, true},
		"it is deleted":              {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, true},
		"it becomes ready":           {func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}} }, false},
		"it gets another image":      {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "b" }, false},
		"somebody else annotates it": {func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "a"}}}}
			after := before.DeepCopy()
			tc.change(after)
			if got := placedOtherwise(before, after); got != tc.triggers {
				t.Errorf("it triggers a pass: %t, want %t", got, tc.triggers)
			}
		})
	}
}
