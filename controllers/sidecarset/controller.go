// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "sidecarset-controller"

// Kind is the reconciled kind, in its stored version.
func Kind() schema.GroupVersionKind { return plan.Kind() }

// +kubebuilder:rbac:groups=apps.kruise.io,resources=sidecarsets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=sidecarsets/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=sidecarsets/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles SidecarSets.
type Reconciler struct {
	*workload.Base
	// namespace is the operator's own, where new revisions are stored.
	namespace string
	// Injection has the API server inject the sidecars into new pods.
	Injection *Injection
}

// New returns a Reconciler without watches.
func New(d workload.Dependencies, namespace string) *Reconciler {
	return &Reconciler{Base: workload.New(Name, Kind(), d), namespace: namespace}
}

// hooksChanged queues the sets with a changed registration. It takes no lock.
func (r *Reconciler) hooksChanged(hooks []string) {
	for _, set := range r.Counted() {
		if slices.Contains(hooks, sidecar.EntryName(set.GetName())) {
			r.Enqueue(types.NamespacedName{Name: set.GetName()})
		}
	}
}

// Reconcile takes one SidecarSet a step closer to its spec, once due and with all earlier writes in the cache.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, set, result, err := workload.Begin[appsv1beta1.SidecarSet](ctx, r.Base, req.NamespacedName, ConditionInjectionPath)
	if pass == nil {
		return result, errors.Join(err, r.endInjection(ctx, req))
	}
	defer pass.End()

	observed, err := r.observe(ctx, pass, set)
	if err != nil {
		return r.NotObserved(ctx, pass.Stored, err, string(appsv1beta1.SidecarSetFailedUpdate))
	}
	todo := pass.Budgeted(ctx, plan.Plan(observed.spec, observed.snapshot))
	outcome := pass.Apply(ctx, set, todo)
	observed.known.Carried(outcome, r.Clock.Now())

	injection, injectionErr := r.reconcileInjection(ctx, set, observed)
	pass.LookAgain(injection.RecheckAfter, observed.again)

	status := plan.Status(observed.spec, observed.snapshot, todo, outcome, injection.Injection)
	status.CollisionCount = ptr.To(ptr.Deref(observed.collisionCount, 0))
	return pass.Report(ctx, set, workload.Report{
		Status: status, Action: "Update", Events: plan.Events(observed.spec, status),
		Then:   func() error { return r.trim(ctx, set, observed) },
		Failed: errors.Join(observed.refused, injectionErr),
	})
}
