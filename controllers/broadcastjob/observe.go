// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package broadcastjob

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/broadcastjob/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
)

// observe reads the pods of a job, and the nodes, if it needs them.
func (r *Reconciler) observe(ctx context.Context, spec *plan.Spec) (plan.Snapshot, error) {
	owner := freshness.OwnerOf(spec.Job)
	snapshot := plan.Snapshot{Now: r.Clock.Now()}
	if !spec.NeedsNodes() {
		return snapshot, nil
	}
	pods, _, err := r.ControlledPods(ctx, owner, nil)
	if err != nil {
		return snapshot, err
	}
	snapshot.Pods = plan.Pods(pods, snapshot.Now)
	r.MarkDeleted(owner, snapshot.Pods)
	var nodes corev1.NodeList
	if err := r.Cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return snapshot, fmt.Errorf("listing nodes: %w", err)
	}
	all := make([]*corev1.Node, len(nodes.Items))
	for i := range nodes.Items {
		all[i] = &nodes.Items[i]
	}
	snapshot.Nodes = spec.Nodes(all)
	r.Remembered(spec.Job).SawNodes(seenIn(snapshot, plan.Finished(spec.Job)))
	return snapshot, nil
}
