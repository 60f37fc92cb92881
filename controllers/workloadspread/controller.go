// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workloadspread

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/workloadspread/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "workloadspread-controller"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=workloadspreads,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=workloadspreads/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets;statefulsets,verbs=get
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=get
// +kubebuilder:rbac:groups=apps,resources=replicasets,verbs=get;list
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles WorkloadSpreads.
type Reconciler struct {
	*workload.Base
	// namespace is the operator's.
	namespace string
	// off: nothing is carried out, since the feature gate is off.
	off bool
	// hooked tells of the hooks; nil in unit tests.
	hooked *workload.Hooked
}

// New returns a Reconciler without watches.
func New(d workload.Dependencies) *Reconciler {
	if d.Spreads == nil {
		d.Spreads = workload.NewParsed(spread.ParseStored)
	}
	return &Reconciler{Base: workload.New(Name, spread.Kind(), d)}
}

// Reconcile takes one WorkloadSpread a step closer to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, ws, result, err := workload.Begin[appsv1beta1.WorkloadSpread](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()
	if ws.DeletionTimestamp != nil || r.off {
		return pass.Finish(nil)
	}
	parsed, invalid := spread.Parse(ws)
	seen := plan.Snapshot{Now: r.Clock.Now()}
	var todo plan.Decision
	var outcome planning.Outcome
	if invalid == nil {
		if parsed, err = r.custom(ctx, pass, parsed, &seen); err == nil {
			err = r.observe(ctx, parsed, &seen)
		}
		if err != nil {
			return r.NotObserved(ctx, pass.Stored, err, appsv1beta1.WorkloadSpreadStalled)
		}
		todo = plan.Plan(parsed, ws, seen)
		outcome = pass.Apply(ctx, ws, todo.Plan)
	}
	status := plan.Status(ws, seen, todo, outcome, invalid)
	return pass.Report(ctx, ws, workload.Report{
		Status: status, Urgent: plan.Urgent(&ws.Status, &status), Action: "Spread", Events: plan.Events(&ws.Status, &status, todo),
	})
}
