// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownersOfClaim is the set in control of a claim, or of its pod.
func (r *Reconciler) ownersOfClaim(ctx context.Context, claim client.Object) []types.NamespacedName {
	if owners := r.Controller(ctx, claim); len(owners) > 0 {
		return owners
	}
	for _, owner := range claim.GetOwnerReferences() {
		if owner.APIVersion != "v1" || owner.Kind != "Pod" {
			continue
		}
		pod := &corev1.Pod{}
		key := types.NamespacedName{Namespace: claim.GetNamespace(), Name: owner.Name}
		if err := r.Client.Get(ctx, key, pod, client.UnsafeDisableDeepCopy); err == nil && pod.UID == owner.UID {
			return r.Controller(ctx, pod)
		}
	}
	return nil
}
