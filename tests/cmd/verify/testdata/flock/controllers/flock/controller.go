// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package flock keeps the pods of Flocks.
package flock

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/flock/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "flock-controller"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=flocks,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=flocks/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create

// Reconciler reconciles Flocks.
type Reconciler struct{ *workload.Base }

// Setup makes the manager run the reconciler of Flocks.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, _ *config.Config) error {
	r := &Reconciler{workload.New(Name, appsv1beta1.GroupVersion().WithKind("Flock"), d)}
	return r.Setup(ctx, mgr, r, workload.Watches{Pods: r.Controller})
}

// Reconcile creates the pods that a Flock lacks.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, flock, result, err := workload.Begin[appsv1beta1.Flock](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()
	pods, _, err := r.ControlledPods(ctx, freshness.OwnerOf(flock), nil)
	if err != nil {
		return ctrl.Result{}, err
	}
	outcome := pass.Apply(ctx, flock, plan.Plan(flock, pods))
	wait, err := pass.WriteStatus(ctx, appsv1beta1.FlockStatus{Count: int32(len(pods))}, false)
	return pass.Finish(err, outcome.RecheckAfter, wait)
}
