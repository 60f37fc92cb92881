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

// injected are the sets whose sidecars a pod says it has, as far as there are such sets: pods keep the sidecars, and what they say, of sets that were deleted,
// and whoever creates a pod can make it name anything. What the cache keeps of other pods has no annotations.
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

// isGone says that there is no set of this name. A set that comes has a pass of its own.
func (r *Reconciler) isGone(ctx context.Context, name types.NamespacedName) bool {
	set := &unstructured.Unstructured{}
	set.SetGroupVersionKind(Kind())
	return apierrors.IsNotFound(r.Cache.Get(ctx, name, set, client.UnsafeDisableDeepCopy))
}

// namespaces is an empty object of the kind by which namespaces are watched: their labels are all that is needed.
func namespaces() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}

// selectingNamespaces are the sets that select namespaces, whichever it is that changed: there are few changes, and few sets.
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
