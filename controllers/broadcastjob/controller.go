// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package broadcastjob

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/broadcastjob/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "broadcastjob-controller"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=broadcastjobs,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=broadcastjobs/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=broadcastjobs/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles BroadcastJobs.
type Reconciler struct {
	*workload.Base
	// bind sets spec.nodeName of new pods instead of leaving them to the scheduler (flag assign-bcj-pods-by-scheduler false).
	bind bool
}

// Reconcile takes one BroadcastJob a step closer to its end, once due and with all earlier writes in the cache.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, job, result, err := workload.Begin[appsv1beta1.BroadcastJob](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()

	spec := plan.Parse(job, r.bind)
	snapshot, err := r.observe(ctx, spec)
	if err != nil {
		return r.NotObserved(ctx, pass.Stored, err, appsv1beta1.BroadcastJobConditionFailedCreate)
	}
	snapshot.Retries = pass.Retries()
	todo := plan.Plan(spec, snapshot)
	todo.Plan = pass.Budgeted(ctx, todo.Plan)
	outcome := pass.Apply(ctx, job, todo.Plan)
	status := plan.Status(spec, snapshot, todo, outcome)
	return pass.Report(ctx, job, workload.Report{
		Status: status, Urgent: plan.Urgent(&job.Status, &status), Action: "Run", Events: plan.Events(spec, todo, &status),
	})
}
