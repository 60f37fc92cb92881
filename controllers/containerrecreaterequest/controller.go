// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package containerrecreaterequest

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/containerrecreaterequest/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "containerrecreaterequest-controller"

// Kind is the kind that is reconciled, in the version that is stored.
func Kind() schema.GroupVersionKind { return plan.Kind() }

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

// New returns a Reconciler that watches nothing yet.
func New(d workload.Dependencies) *Reconciler {
	return &Reconciler{Base: workload.New(Name, Kind(), d)}
}

// SetupWithManager makes the manager run the reconciler.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := r.index(ctx); err != nil {
		return err
	}
	return r.Setup(ctx, mgr, r, workload.Watches{OthersWriteStatus: true, Pods: r.requestsFor})
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
	todo := plan.Plan(request, snapshot)

	outcome := pass.Apply(ctx, request, todo.Plan)
	if todo.Marks() && outcome.Done > 0 {
		return pass.Finish(nil, todo.RecheckAfter, outcome.RecheckAfter)
	}
	status := plan.Status(request, snapshot, todo, outcome)
	statusWait, statusErr := pass.WriteStatus(ctx, status, true)
	if statusErr == nil && statusWait == 0 {
		r.EmitEvents(request, "Recreate", plan.Events(request, &status))
		if reason, took, ended := plan.End(request, &status); ended {
			r.Metrics.RecreateRequests.WithLabelValues(reason).Inc()
			r.Metrics.RecreateLatency.Observe(took.Seconds())
		}
	}
	return pass.Finish(statusErr, todo.RecheckAfter, outcome.RecheckAfter, statusWait)
}
