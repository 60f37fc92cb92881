// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// trimNode keeps the fields of a node that decide about its pods: labels, taints,
// schedulability, allocatable resources, and conditions without times and messages. Images,
// addresses and annotations are most of a node, and nobody here reads them.
func trimNode(stored any) (any, error) {
	node, ok := stored.(*corev1.Node)
	if !ok {
		if object, ok := stored.(client.Object); ok {
			object.SetManagedFields(nil)
		}
		return stored, nil
	}
	trimmed := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion,
			Labels: node.Labels, CreationTimestamp: node.CreationTimestamp, DeletionTimestamp: node.DeletionTimestamp,
		},
		Spec: corev1.NodeSpec{Taints: node.Spec.Taints, Unschedulable: node.Spec.Unschedulable},
	}
	trimmed.Status.Allocatable = node.Status.Allocatable
	for _, condition := range node.Status.Conditions {
		trimmed.Status.Conditions = append(trimmed.Status.Conditions, corev1.NodeCondition{Type: condition.Type, Status: condition.Status})
	}
	return trimmed, nil
}

// NodeChanges drops updates of a node outside its cached fields: the kubelet writes its
// status every few minutes as a sign of life.
func NodeChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Node)
		after, alsoOK := e.ObjectNew.(*corev1.Node)
		return !ok || !alsoOK || !sameNode(before, after)
	}}
}

func sameNode(a, b *corev1.Node) bool {
	return a.UID == b.UID &&
		a.DeletionTimestamp.IsZero() == b.DeletionTimestamp.IsZero() &&
		a.Spec.Unschedulable == b.Spec.Unschedulable &&
		maps.Equal(a.Labels, b.Labels) &&
		slices.EqualFunc(a.Spec.Taints, b.Spec.Taints, func(x, y corev1.Taint) bool { return x.MatchTaint(&y) && x.Value == y.Value }) &&
		maps.EqualFunc(a.Status.Allocatable, b.Status.Allocatable, func(x, y resource.Quantity) bool { return x.Equal(y) }) &&
		slices.EqualFunc(a.Status.Conditions, b.Status.Conditions, func(x, y corev1.NodeCondition) bool {
			return x.Type == y.Type && x.Status == y.Status
		})
}
