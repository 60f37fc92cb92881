// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package ephemeraljob

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

func ended(stored map[string]any) bool {
	end, _, _ := unstructured.NestedString(stored, "status", "completionTime")
	return end != ""
}

// changed: a pod changed in fields a job reads.
func changed(before, after *corev1.Pod) bool {
	return !labels.Equals(before.Labels, after.Labels) || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		before.Spec.NodeName != after.Spec.NodeName || before.Status.Phase != after.Status.Phase ||
		!equality.Semantic.DeepEqual(before.Spec.EphemeralContainers, after.Spec.EphemeralContainers) ||
		!equality.Semantic.DeepEqual(before.Status.EphemeralContainerStatuses, after.Status.EphemeralContainerStatuses)
}
