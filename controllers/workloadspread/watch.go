// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workloadspread

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
)

// spreadsOf names the WorkloadSpreads of a pod's workload.
func (r *Reconciler) spreadsOf(ctx context.Context, pod client.Object) []types.NamespacedName {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return nil
	}
	return r.Concerned(ctx, pod.GetNamespace(), func(stored *unstructured.Unstructured) bool {
		s := r.Spreads.Of(stored)
		return s != nil && isOf(s, owner, pod)
	})
}

// isOf: pods of this owner may be the target's.
func isOf(s *spread.Spread, owner *metav1.OwnerReference, pod client.Object) bool {
	if s.Target.Kind == "Deployment" {
		return owner.Kind == "ReplicaSet" && owner.Name == s.TargetName+"-"+pod.GetLabels()[shared.LabelPodTemplateHash]
	}
	if mark, found := spread.MarkOf(pod.GetAnnotations()); found && mark.Name == s.Name && s.IsCustom() {
		return true // its owner may be between
	}
	return s.IsFor(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind(), owner.Name)
}

// changed reports whether a pod changed in what decides about its subset or cost.
func changed(before, after *corev1.Pod) bool {
	return !maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations) ||
		before.Spec.NodeName != after.Spec.NodeName || before.DeletionTimestamp == nil != (after.DeletionTimestamp == nil) ||
		podstate.Finished(before) != podstate.Finished(after) || podstate.Unschedulable(before) != podstate.Unschedulable(after)
}
