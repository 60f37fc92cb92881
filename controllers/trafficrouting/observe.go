// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package trafficrouting

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/trafficrouting/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/routing"
	"github.com/kruise-operator/kruise-operator/internal/kube/routes"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

func rolloutKind() schema.GroupVersionKind { return v1beta1.GroupVersion().WithKind("Rollout") }

// observe reads Rollouts from the cache, and routes past it, when they have to be changed.
func (r *Reconciler) observe(ctx context.Context, o *v1alpha1.TrafficRouting) (plan.Snapshot, []routes.Place, error) {
	now := r.Clock.Now()
	s := plan.Snapshot{Now: now}
	if err := r.WatchLateSpecs(ctx, workload.Object(rolloutKind()), r.usedBy); err != nil {
		return s, nil, err
	}
	for _, name := range plan.Named(o.Finalizers) {
		uses, err := r.uses(ctx, types.NamespacedName{Namespace: o.Namespace, Name: name}, o.Name)
		if err != nil {
			return s, nil, err
		}
		if uses {
			s.Users = append(s.Users, name)
		}
	}
	goal, wanted := plan.Wanted(o, s.Users)
	if !wanted {
		return s, nil, nil
	}
	places, err := r.routes.Read(ctx, routes.Asked{
		Owner: o, Refs: o.Spec.ObjectRef, Names: plan.Names(o), Share: plan.Share(o.Spec.Strategy), Goal: goal,
	})
	if err != nil {
		return s, nil, err
	}
	since := now.Sub(routes.Written(plan.Since(o), now, places))
	s.Corrected = routes.Corrected(places)
	s.World = &traffic.World{
		Goal: goal, Share: plan.Share(o.Spec.Strategy), OneService: true, Routes: routes.States(places),
		Waited: since >= routes.Grace(o.Spec.ObjectRef), Overdue: since >= routes.Overdue,
	}
	return s, places, nil
}

// uses: a Rollout is there, and names the TrafficRouting. What the cache lacks is looked for at the API server.
func (r *Reconciler) uses(ctx context.Context, rollout types.NamespacedName, name string) (bool, error) {
	stored := workload.Object(rolloutKind())
	err := r.Cache.Get(ctx, rollout, stored, client.UnsafeDisableDeepCopy)
	if err == nil {
		return routing.SharedIn(stored) == name, nil
	}
	if !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("reading a Rollout: %w", err)
	}
	switch _, err := r.Writer.Look(ctx, rolloutKind(), rollout); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking for a Rollout: %w", err)
	}
	return false, workload.ErrNotSynced
}

// usedBy names the TrafficRoutings with a Rollout in their finalizers.
func (r *Reconciler) usedBy(ctx context.Context, rollout client.Object) []types.NamespacedName {
	stored, err := r.Stored(ctx, client.InNamespace(rollout.GetNamespace()))
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("No TrafficRouting is enqueued", "err", err.Error())
		return nil
	}
	var names []types.NamespacedName
	for i := range stored {
		if slices.Contains(plan.Named(stored[i].GetFinalizers()), rollout.GetName()) {
			names = append(names, client.ObjectKeyFromObject(&stored[i]))
		}
	}
	return names
}
