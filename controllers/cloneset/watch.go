// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// ofPod is the set that controls a pod. A pod that nothing controls belongs to no set: CloneSets adopt nothing.
func ofPod(_ context.Context, pod client.Object) (types.NamespacedName, bool) {
	return workload.ControllerOf(pod, Kind())
}

// ofClaim is the set that controls a claim or, for one that goes with a pod, the set of that pod.
func (r *Reconciler) ofClaim(ctx context.Context, claim client.Object) (types.NamespacedName, bool) {
	if name, ok := workload.ControllerOf(claim, Kind()); ok {
		return name, true
	}
	for _, owner := range claim.GetOwnerReferences() {
		if owner.APIVersion != "v1" || owner.Kind != "Pod" {
			continue
		}
		pod := &corev1.Pod{}
		key := types.NamespacedName{Namespace: claim.GetNamespace(), Name: owner.Name}
		if err := r.Client.Get(ctx, key, pod, client.UnsafeDisableDeepCopy); err == nil && pod.UID == owner.UID {
			return workload.ControllerOf(pod, Kind())
		}
	}
	return types.NamespacedName{}, false
}
