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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan"
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
	set := &unstructured.Unstructured{}
	set.SetGroupVersionKind(Kind())
	return apierrors.IsNotFound(r.Cache.Get(ctx, name, set, client.UnsafeDisableDeepCopy))
}

// namespaces is the watched kind of namespaces: only metadata matters.
func namespaces() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}

// selectingNamespaces returns all sets with namespace selectors, for any change: both are few.
func (r *Reconciler) selectingNamespaces(ctx context.Context, _ client.Object) []types.NamespacedName {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(Kind())
	if err := r.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("No set is looked at again because of a namespace", "err", err.Error())
		return nil
	}
	var names []types.NamespacedName
	for i := range list.Items {
		if _, selects, _ := unstructured.NestedMap(list.Items[i].Object, "spec", "namespaceSelector"); selects {
			names = append(names, types.NamespacedName{Name: list.Items[i].GetName()})
		}
	}
	return names
}
