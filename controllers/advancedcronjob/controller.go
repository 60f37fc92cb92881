// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package advancedcronjob

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/advancedcronjob/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "advancedcronjob-controller"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=advancedcronjobs,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=advancedcronjobs/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=advancedcronjobs/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps.kruise.io,resources=broadcastjobs;imagelistpulljobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles AdvancedCronJobs.
type Reconciler struct {
	*workload.Base
	// managed: somebody carries out this kind.
	managed func(schema.GroupVersionKind) bool
}

// Reconcile starts an AdvancedCronJob's due run, trims its history, and schedules the next pass.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, cron, result, err := workload.Begin[appsv1beta1.AdvancedCronJob](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()

	known := workload.Own(pass.Memory, func() *remembered { return &remembered{} })
	spec := plan.Parse(cron, pass.Stored.Object, r.managed)
	snapshot, err := r.observe(ctx, spec, known)
	if err != nil {
		return r.NotObserved(ctx, pass.Stored, err, appsv1beta1.AdvancedCronJobFailedCreate)
	}
	due := plan.Evaluate(spec, snapshot)
	run, waits, in := plan.Unready(spec, snapshot, due)
	lookAgain := max(r.look(ctx, known, run, waits), in)
	todo := plan.Plan(spec, snapshot, due)
	outcome := pass.Apply(ctx, cron, todo)
	started := plan.Started(outcome)
	known.evaluated = plan.EvaluatedUntil(snapshot, due, started)
	if started {
		known.started = due.Run.Round(0)
		r.Metrics.CronSkew.Observe(r.Clock.Since(due.Run).Seconds())
	}
	missed := known.emitted.Missed
	r.EmitEvents(cron, "Schedule", plan.Events(spec, snapshot, due, todo, &known.emitted))
	if due.TooLate && !known.emitted.Missed.Equal(missed) {
		r.Metrics.CronLeftOut.Inc()
	}
	if started {
		// The cached run triggers a pass, with one status write for its start and activity.
		return pass.Finish(nil)
	}
	pass.LookAgain(lookAgain)
	status := plan.Status(spec, snapshot, due, todo, outcome)
	return pass.Report(ctx, cron, workload.Report{Status: status})
}
