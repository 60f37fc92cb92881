// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides which pods a Flock gets.
package plan

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Plan creates the pods that are missing.
func Plan(flock *appsv1beta1.Flock, have []*corev1.Pod) planning.Plan {
	names := map[string]bool{}
	for _, pod := range have {
		names[pod.Name] = true
	}
	var todo planning.Plan
	for i := range int(flock.Spec.Replicas) {
		slot := strconv.Itoa(i)
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: flock.Namespace, Name: flock.Name + "-" + slot,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(flock, appsv1beta1.GroupVersion().WithKind("Flock"))},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: flock.Spec.Image}}},
		}
		if !names[pod.Name] {
			todo.Actions = append(todo.Actions, podset.CreatePod(planning.Slot(slot), pod, nil, edit.Edit{}, "Missing"))
		}
	}
	return todo
}
