// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package broadcastjob

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// unfinished names the jobs that have not ended: a node may fit any of them. Those that have ended are not looked at again for it.
func (r *Reconciler) unfinished(ctx context.Context, _ client.Object) []types.NamespacedName {
	stored := &unstructured.UnstructuredList{}
	stored.SetGroupVersionKind(Kind())
	if err := r.Cache.List(ctx, stored, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var names []types.NamespacedName
	for i := range stored.Items {
		if !ended(stored.Items[i].Object) {
			names = append(names, client.ObjectKeyFromObject(&stored.Items[i]))
		}
	}
	return names
}

// ended says whether a stored job has completed or failed. It reads the job as it is stored.
func ended(stored map[string]any) bool {
	never, _, _ := unstructured.NestedString(stored, "spec", "completionPolicy", "type")
	field, _, _ := unstructured.NestedFieldNoCopy(stored, "status", "conditions")
	list, _ := field.([]any)
	for _, entry := range list {
		condition, _ := entry.(map[string]any)
		if condition["status"] != string(corev1.ConditionTrue) {
			continue
		}
		switch condition["type"] {
		case appsv1beta1.BroadcastJobConditionFailed:
			return true
		case appsv1beta1.BroadcastJobConditionComplete:
			return never != string(appsv1beta1.BroadcastJobNever)
		}
	}
	return false
}
