// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan"
)

// injected are the sets whose sidecars a pod says it has. What the cache keeps of other pods has no annotations.
func (r *Reconciler) injected(_ context.Context, object client.Object) []types.NamespacedName {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil
	}
	var names []types.NamespacedName
	for _, name := range plan.Injected(pod) {
		names = append(names, types.NamespacedName{Name: name})
	}
	return names
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
