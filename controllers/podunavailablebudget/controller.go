// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podunavailablebudget

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/podunavailablebudget/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/disruption"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "podunavailablebudget-controller"

// +kubebuilder:rbac:groups=policy.kruise.io,resources=podunavailablebudgets,verbs=get;list;watch
// +kubebuilder:rbac:groups=policy.kruise.io,resources=podunavailablebudgets/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments/scale;replicasets/scale;statefulsets/scale,verbs=get
// +kubebuilder:rbac:groups="",resources=replicationcontrollers/scale,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles PodUnavailableBudgets.
type Reconciler struct {
	*workload.Base
	gates disruption.Gates
	hooks *registration
	// enabled: a kind of ours is in the cache.
	enabled func(kind string) bool
}

// Setup makes the manager run the reconciler of budgets.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	r := &Reconciler{
		Base: workload.New(Name, plan.Kind(), d), gates: GatesOf(c.Features), enabled: c.Enabled,
	}
	r.hooks = newRegistration(r, c)
	if err := workload.EachChange(mgr, d, Name+"-hooks", plan.Kind(), r.hooks.refresh, workload.Changes()); err != nil {
		return err
	}
	return r.Setup(ctx, mgr, r, workload.Watches{OthersWriteStatus: true, Pods: r.budgetsOf, PodChanged: changed})
}

// Reconcile counts one budget.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, stored, result, err := workload.Begin[v1beta1.PodUnavailableBudget](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()
	if stored.DeletionTimestamp != nil {
		return pass.Finish(nil)
	}
	budget := disruption.Parse(stored)
	snapshot, err := r.observe(ctx, pass, budget)
	if err != nil {
		return r.NotObserved(ctx, pass.Stored, err, v1beta1.PodUnavailableBudgetStalled)
	}
	todo := plan.Plan(budget, snapshot)
	outcome := pass.Apply(ctx, stored, todo.Plan)
	status := plan.Status(budget, snapshot, todo, outcome)
	return pass.Report(ctx, stored, workload.Report{
		Status: status, Urgent: plan.Urgent(&stored.Status, &status), Action: "Count", Events: plan.Events(&stored.Status, &status),
		Then: func() error { r.sayOverdue(todo.Counted.Overdue); return nil },
	})
}

// sayOverdue tells of deletions that were allowed and did not happen.
func (r *Reconciler) sayOverdue(pods []*corev1.Pod) {
	for _, pod := range pods {
		r.Recorder.Eventf(pod, nil, corev1.EventTypeWarning, "NotDeleted", "Count", "Pod was expected to be deleted but it wasn't: its budget counts it again")
	}
}
