// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package trafficrouting

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/trafficrouting/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/istio"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/routing"
	"github.com/kruise-operator/kruise-operator/internal/kube/routes"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// mostLooks is how many Rollouts are looked for in one pass.
const mostLooks = 20

func rolloutKind() schema.GroupVersionKind { return v1beta1.GroupVersion().WithKind("Rollout") }

// observe reads Rollouts from the cache, and routes past it, when they have to be changed.
func (r *Reconciler) observe(ctx context.Context, o *v1alpha1.TrafficRouting) (plan.Snapshot, []routes.Place, error) {
	now := r.Clock.Now()
	s := plan.Snapshot{Now: now}
	if err := r.WatchLateSpecs(ctx, workload.Object(rolloutKind()), r.usedBy); err != nil {
		return s, nil, err
	}
	var err error
	if s.Users, err = r.users(ctx, o); err != nil {
		return s, nil, err
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
	if s.Podless, err = r.podless(ctx, o, goal, places); err != nil {
		return s, nil, err
	}
	s.Corrected = routes.Corrected(places)
	s.World = &traffic.World{
		Goal: goal, Share: plan.Share(o.Spec.Strategy), OneService: true, Routes: routes.States(places),
		Waited: since >= routes.Grace(o.Spec.ObjectRef), Overdue: since >= routes.Overdue,
	}
	return s, places, nil
}

// users are the Rollouts in finalizers that are there, and name the object. What the cache lacks is looked for at the API server, a few at a time.
func (r *Reconciler) users(ctx context.Context, o *v1alpha1.TrafficRouting) (all []string, err error) {
	looks := 0
	for _, name := range plan.Named(o.Finalizers) {
		stored, key := workload.Object(rolloutKind()), types.NamespacedName{Namespace: o.Namespace, Name: name}
		err := r.Cache.Get(ctx, key, stored, client.UnsafeDisableDeepCopy)
		uses := apierrors.IsNotFound(err) || routing.SharedIn(stored) == o.Name
		if apierrors.IsNotFound(err) && looks < mostLooks {
			looks++
			_, err = r.Writer.Look(ctx, rolloutKind(), key)
			uses = err == nil
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading a Rollout: %w", err)
		}
		if uses {
			all = append(all, name)
		}
	}
	return all, nil
}

// podless says which pods a subset of Istio lacks; empty: none.
func (r *Reconciler) podless(ctx context.Context, o *v1alpha1.TrafficRouting, goal traffic.Goal, places []routes.Place) (string, error) {
	i := slices.IndexFunc(places, func(p routes.Place) bool { return p.First && p.Object != nil })
	if goal != traffic.Route || i < 0 {
		return "", nil
	}
	name := plan.Names(o).Stable
	service, fault, err := r.routes.Object(ctx, corev1.SchemeGroupVersion.WithKind("Service"), o.Namespace, name)
	switch {
	case err != nil || fault != "":
		return fault, err
	case service == nil:
		return "there is no Service " + name, nil
	}
	labels := istio.Subset(places[i].Object)
	ready, err := routes.AnyPod(ctx, r.Live, service, labels)
	if ready || err != nil {
		return "", err
	}
	return fmt.Sprintf("no pod of the Service %s with the labels %v is ready", name, labels), nil
}

// usedBy names the TrafficRoutings with a Rollout in their finalizers.
func (r *Reconciler) usedBy(ctx context.Context, rollout client.Object) []types.NamespacedName {
	return r.Concerned(ctx, rollout.GetNamespace(), func(stored *unstructured.Unstructured) bool {
		return slices.Contains(stored.GetFinalizers(), shared.FinalizerInUse+rollout.GetName())
	})
}
