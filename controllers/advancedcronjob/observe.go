// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package advancedcronjob

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/advancedcronjob/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// remembered is what is remembered of an AdvancedCronJob between its passes, beside what all kinds remember.
type remembered struct {
	// evaluated is until when its schedule was evaluated.
	evaluated time.Time
	// started is when the newest run was due that was started.
	started time.Time
	// announced is which runs events were emitted about.
	announced plan.Announced
}

func rememberedOf(pass *workload.Pass) *remembered {
	return workload.Own(pass.Memory, func() *remembered { return &remembered{} })
}

// observe reads the runs of an AdvancedCronJob. Those of a kind that nobody manages are not asked for: there may be no such kind.
func (r *Reconciler) observe(ctx context.Context, spec *plan.Spec, known *remembered) (plan.Snapshot, error) {
	snapshot := plan.Snapshot{Now: r.Clock.Now(), Evaluated: known.evaluated, Started: known.started}
	if spec.Adapter == nil || !spec.Managed {
		return snapshot, nil
	}
	adapter := *spec.Adapter
	run := &unstructured.Unstructured{}
	run.SetGroupVersionKind(adapter.Kind)
	err := r.WatchLate(ctx, run, r.Controller, func(ctx context.Context, indexer client.FieldIndexer) error {
		return cache.IndexByController(ctx, indexer, run)
	})
	if err != nil {
		return snapshot, err
	}
	owner := freshness.OwnerOf(spec.Cron)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(adapter.Kind)
	if err := cache.Controlled(ctx, r.Cache, list, owner.Namespace, owner.UID); err != nil {
		return snapshot, fmt.Errorf("listing runs: %w", err)
	}
	going := r.Tracker.Going(owner, adapter.Kind, func(yield func(metav1.Object) bool) {
		for i := range list.Items {
			if !yield(&list.Items[i]) {
				return
			}
		}
	})
	snapshot.Runs = make([]plan.Run, len(list.Items))
	for i := range list.Items {
		snapshot.Runs[i] = adapter.Observe(&list.Items[i])
		if going.Has(list.Items[i].GetUID()) {
			snapshot.Runs[i].Terminating = true
		}
	}
	return snapshot, nil
}
