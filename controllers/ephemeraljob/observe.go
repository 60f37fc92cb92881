// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package ephemeraljob

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/ephemeraljob/plan"
)

// memory is kept of a job between passes.
type memory struct {
	// refused are the server's refusals.
	refused map[types.UID]plan.Refusal
	// generation is the refusals' spec.
	generation int64
}

// observe reads a job's selected pods, if it needs them.
func (r *Reconciler) observe(ctx context.Context, spec *plan.Spec, own *memory) (plan.Snapshot, error) {
	if own.generation != spec.Job.Generation {
		*own = memory{generation: spec.Job.Generation} // its user may have repaired what was refused
	}
	snapshot := plan.Snapshot{Now: r.Clock.Now(), Refused: own.refused}
	if !spec.NeedsPods() {
		return snapshot, nil
	}
	var pods corev1.PodList
	err := r.Cache.List(ctx, &pods, client.InNamespace(spec.Job.Namespace), client.MatchingLabelsSelector{Selector: spec.Selector}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return snapshot, fmt.Errorf("listing pods: %w", err)
	}
	for i := range pods.Items {
		snapshot.Pods = append(snapshot.Pods, &pods.Items[i])
	}
	return snapshot, nil
}
