// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package containerrecreaterequest

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	policyv1beta1 "github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/containerrecreaterequest/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "containerrecreaterequest-controller"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=containerrecreaterequests,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=containerrecreaterequests/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles ContainerRecreateRequests.
type Reconciler struct {
	*workload.Base
}

// Reconcile takes one request a step closer to its end.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, request, result, err := workload.Begin[appsv1beta1.ContainerRecreateRequest](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()

	snapshot, err := r.observe(ctx, pass, request)
	if err != nil {
		return ctrl.Result{}, err
	}
	if plan.Unfilled(request) && snapshot.Pod != nil && restart.Pinned(request, snapshot.Pod) {
		if snapshot.BudgetHolds, err = r.BudgetHolds(ctx, snapshot.Pod, policyv1beta1.PubUpdateOperation); err != nil {
			return ctrl.Result{}, err
		}
	}
	todo := plan.Plan(request, snapshot)
	outcome := pass.Apply(ctx, request, todo.Plan)
	if todo.Marks() && outcome.Done > 0 {
		return pass.Finish(nil)
	}
	status := plan.Status(request, snapshot, todo, outcome)
	return pass.Report(ctx, request, workload.Report{
		Status: status, Urgent: true, Action: "Recreate", Events: plan.Events(request, &status),
		Then: func() error {
			if reason, took, ended := plan.End(request, &status); ended {
				r.Metrics.RecreateRequests.WithLabelValues(reason).Inc()
				r.Metrics.RecreateLatency.Observe(took.Seconds())
			}
			return nil
		},
	})
}
