// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagelistpulljob

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/imagelistpulljob/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
)

// observe reads the ImagePullJobs of a list. They are not asked for where nobody manages them: there may be no such kind.
func (r *Reconciler) observe(ctx context.Context, spec *plan.Spec) (plan.Snapshot, error) {
	snapshot := plan.Snapshot{Now: r.Clock.Now()}
	if !spec.Managed {
		return snapshot, nil
	}
	job := &unstructured.Unstructured{}
	job.SetGroupVersionKind(plan.KindImagePullJob())
	err := r.WatchLate(ctx, job, r.Controller, func(ctx context.Context, indexer client.FieldIndexer) error {
		return cache.IndexByController(ctx, indexer, job)
	})
	if err != nil {
		return snapshot, err
	}
	stored := &unstructured.UnstructuredList{}
	stored.SetGroupVersionKind(plan.KindImagePullJob())
	if err := cache.Controlled(ctx, r.Cache, stored, spec.List.Namespace, spec.List.UID); err != nil {
		return snapshot, fmt.Errorf("listing ImagePullJobs: %w", err)
	}
	owner := freshness.OwnerOf(spec.List)
	deleted := r.Tracker.Deleted(owner, plan.KindImagePullJob(), func(yield func(metav1.Object) bool) {
		for i := range stored.Items {
			if !yield(&stored.Items[i]) {
				return
			}
		}
	})
	for i := range stored.Items {
		child := plan.Observe(&stored.Items[i])
		child.Terminating = child.Terminating || deleted.Has(stored.Items[i].GetUID())
		snapshot.Children = append(snapshot.Children, child)
	}
	return snapshot, nil
}
