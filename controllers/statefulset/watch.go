// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"context"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// slotName splits the name of a slot's pod.
var slotName = regexp.MustCompile(`^(.+)-[0-9]+$`)

// ownersOfPod is the set in control of a pod, or, for a pod without controller, the set with a slot
// of that name, if there is one: a cluster may have any number of such pods.
func (r *Reconciler) ownersOfPod(ctx context.Context, pod client.Object) []types.NamespacedName {
	if metav1.GetControllerOfNoCopy(pod) != nil {
		return r.Controller(ctx, pod)
	}
	parts := slotName.FindStringSubmatch(pod.GetName())
	if parts == nil {
		return nil
	}
	name := types.NamespacedName{Namespace: pod.GetNamespace(), Name: parts[1]}
	if err := r.Cache.Get(ctx, name, workload.Object(r.Kind), client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		return nil
	}
	return []types.NamespacedName{name}
}

// ownersOfClaim are the sets with a slot at the end of the claim's name.
func (r *Reconciler) ownersOfClaim(ctx context.Context, claim client.Object) []types.NamespacedName {
	parts := slotName.FindStringSubmatch(claim.GetName())
	if parts == nil {
		return nil
	}
	return r.Concerned(ctx, claim.GetNamespace(), func(stored *unstructured.Unstructured) bool {
		return strings.HasSuffix(parts[1], "-"+stored.GetName())
	})
}
