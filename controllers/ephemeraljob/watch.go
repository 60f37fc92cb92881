// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package ephemeraljob

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// selecting names the jobs of a pod's namespace that have not ended and select it.
func (r *Reconciler) selecting(ctx context.Context, pod client.Object) []types.NamespacedName {
	stored := &unstructured.UnstructuredList{}
	stored.SetGroupVersionKind(Kind())
	if err := r.Cache.List(ctx, stored, client.InNamespace(pod.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var names []types.NamespacedName
	for i := range stored.Items {
		if selects(stored.Items[i].Object, labels.Set(pod.GetLabels())) {
			names = append(names, client.ObjectKeyFromObject(&stored.Items[i]))
		}
	}
	return names
}

// selects says whether a stored job has not ended and selects pods with the labels.
func selects(stored map[string]any, pod labels.Set) bool {
	if end, _, _ := unstructured.NestedString(stored, "status", "completionTime"); end != "" {
		return false
	}
	field, _, _ := unstructured.NestedFieldNoCopy(stored, "spec", "selector")
	raw, _ := field.(map[string]any)
	written := &metav1.LabelSelector{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(raw, written) != nil {
		return false // the pass says what is wrong with it
	}
	selector, err := podset.Selector(written)
	return err == nil && selector.Matches(pod)
}

// changed says that a pod has changed in what a job looks at.
func changed(before, after *corev1.Pod) bool {
	return !labels.Equals(before.Labels, after.Labels) || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		before.Spec.NodeName != after.Spec.NodeName || before.Status.Phase != after.Status.Phase ||
		!equality.Semantic.DeepEqual(before.Spec.EphemeralContainers, after.Spec.EphemeralContainers) ||
		!equality.Semantic.DeepEqual(before.Status.EphemeralContainerStatuses, after.Status.EphemeralContainerStatuses)
}
