// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// injected returns the existing sets recorded on a pod. Pods keep records of deleted
// sets, and their creators can name anything. The cache drops other pods' annotations.
func (r *Reconciler) injected(ctx context.Context, object client.Object) []types.NamespacedName {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil
	}
	var names []types.NamespacedName
	for _, name := range plan.Injected(pod) {
		key := types.NamespacedName{Name: name}
		if !r.isGone(ctx, key) {
			names = append(names, key)
		}
	}
	return names
}

// isGone reports whether no such set exists. A new set gets its own pass.
func (r *Reconciler) isGone(ctx context.Context, name types.NamespacedName) bool {
	return apierrors.IsNotFound(r.Cache.Get(ctx, name, workload.Object(Kind()), client.UnsafeDisableDeepCopy))
}

// namespaces is the watched kind of namespaces: only metadata matters.
func namespaces() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}

// selectingNamespaces returns all sets with namespace selectors, for any change: both are few.
func (r *Reconciler) selectingNamespaces(ctx context.Context, _ client.Object) []types.NamespacedName {
	return r.Concerned(ctx, metav1.NamespaceAll, func(stored *unstructured.Unstructured) bool {
		_, selects, _ := unstructured.NestedMap(stored.Object, "spec", "namespaceSelector")
		return selects
	})
}
