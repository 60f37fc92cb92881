// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
)

const (
	// keepAnnounced is how long a workload stays under the brake whose Rollout is not stored.
	keepAnnounced = 15 * time.Second
	// releasing is when to look again while a BatchRelease gives the workload back.
	releasing = 2 * time.Second
)

// abandon takes workloads from under the brake that name a Rollout which is not stored, or is for another workload. It says when to look
// again while the Rollout is not stored.
func (r *Reconciler) abandon(ctx context.Context, rollout types.NamespacedName) (time.Duration, error) {
	var wait time.Duration
	for _, row := range r.rows {
		all, err := r.named(ctx, row, rollout)
		if err != nil {
			return 0, err
		}
		for _, at := range all {
			again, err := r.judge(ctx, row, at, rollout)
			if err != nil {
				return 0, err
			}
			wait = workload.Earliest(wait, again)
		}
	}
	return wait, nil
}

// named are the workloads of a kind that name a Rollout, and are under the brake.
func (r *Reconciler) named(ctx context.Context, row rollable.Workload, rollout types.NamespacedName) ([]metav1.Object, error) {
	if row.Native {
		return r.labeled.named(row.Kind, rollout), nil
	}
	stored, err := r.List(ctx, row.Kind, client.InNamespace(rollout.Namespace), client.HasLabels{shared.LabelWorkloadType})
	if err != nil {
		return nil, err
	}
	var all []metav1.Object
	for i := range stored {
		if stored[i].GetAnnotations()[shared.AnnotationRollout] == rollout.Name {
			all = append(all, &stored[i])
		}
	}
	return all, nil
}

// judge decides about one of them.
func (r *Reconciler) judge(ctx context.Context, row rollable.Workload, at metav1.Object, rollout types.NamespacedName) (time.Duration, error) {
	stored := workload.Object(kind())
	err := r.Cache.Get(ctx, rollout, stored, client.UnsafeDisableDeepCopy)
	switch {
	case err == nil && refersTo(stored, row.Kind.GroupKind(), at.GetName()):
		r.strays.Delete(at.GetUID())
		return 0, nil
	case err == nil:
		return 0, r.letGo(ctx, row, at)
	case !apierrors.IsNotFound(err):
		return 0, fmt.Errorf("reading the Rollout: %w", err)
	}
	now := r.Clock.Now()
	first, _ := r.strays.LoadOrStore(at.GetUID(), now)
	if since, _ := first.(time.Time); now.Sub(since) < keepAnnounced {
		return keepAnnounced - now.Sub(since), nil
	}
	if _, err := r.Writer.Look(ctx, kind(), rollout); !apierrors.IsNotFound(err) {
		return workload.Busy, err // the cache will show it
	}
	if _, controlled := at.GetAnnotations()[shared.AnnotationControl]; controlled {
		return releasing, nil
	}
	ctrl.LoggerFrom(ctx).Info("Workload is let go: its Rollout is not stored", "kind", row.Kind.Kind, "workload", at.GetName())
	return 0, r.letGo(ctx, row, at)
}

// letGo takes a workload from under the brake.
func (r *Reconciler) letGo(ctx context.Context, row rollable.Workload, at metav1.Object) error {
	key := types.NamespacedName{Namespace: at.GetNamespace(), Name: at.GetName()}
	stored := workload.Object(row.Kind)
	if err := r.Writer.Read(ctx, key, stored); err != nil {
		return client.IgnoreNotFound(err)
	}
	if stored.GetUID() != at.GetUID() || stored.GetAnnotations()[shared.AnnotationRollout] != at.GetAnnotations()[shared.AnnotationRollout] {
		return nil // it is another one's by now
	}
	version := planning.Version{ResourceVersion: stored.GetResourceVersion()}
	for _, request := range abandoning(stored).Requests(stored) {
		body, err := request.Body(version)
		if err != nil {
			return fmt.Errorf("encoding a patch: %w", err)
		}
		owner := freshness.Owner{NamespacedName: types.NamespacedName{Namespace: key.Namespace, Name: at.GetAnnotations()[shared.AnnotationRollout]}}
		answer, err := r.Writer.Patch(ctx, owner, freshness.RefOf(row.Kind, stored), writer.Patch{Type: request.Type, Content: body})
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		version.ResourceVersion = answer.ResourceVersion
	}
	r.strays.Delete(at.GetUID())
	return nil
}
