// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package ephemeraljob

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/ephemeraljob/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "ephemeraljob-controller"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=ephemeraljobs,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=ephemeraljobs/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods/ephemeralcontainers,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles EphemeralJobs.
type Reconciler struct {
	*workload.Base
}

// Reconcile takes one EphemeralJob a step closer to its end, when it is due and the cache shows all earlier writes for it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, job, result, err := workload.Begin[appsv1beta1.EphemeralJob](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()

	own := workload.Own(pass.Memory, func() *memory { return &memory{} })
	spec := plan.Parse(job)
	snapshot, err := r.observe(ctx, spec, own)
	if err != nil {
		return r.NotObserved(ctx, pass.Stored, err, appsv1beta1.EphemeralJobCreateFailed)
	}
	todo := plan.Plan(spec, snapshot)
	outcome := pass.Apply(ctx, job, todo.Plan)
	own.refused = plan.Refusals(snapshot, todo, outcome)
	pass.LookAgain(plan.NextAfter(todo, outcome))
	status := plan.Status(spec, snapshot, todo, outcome)
	return pass.Report(ctx, job, workload.Report{
		Status: status, Action: "Run", Events: plan.Events(spec, &status),
	})
}
