// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package resourcedistribution

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/resourcedistribution/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "resourcedistribution-controller"

// ConfigMaps are written by the role of config/rbac/distribution.yaml.
// +kubebuilder:rbac:groups=apps.kruise.io,resources=resourcedistributions,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=resourcedistributions/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=resourcedistributions/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// slice is how long a pass begins writes. No copy is more urgent than another, and each pass looks at all.
const slice = 10 * time.Second

// Reconciler reconciles ResourceDistributions.
type Reconciler struct {
	*workload.Base
	// targets are the parsed targets, for events of namespaces.
	targets *workload.Parsed[plan.Targets]
}

// New returns a Reconciler without watches.
func New(d workload.Dependencies) *Reconciler {
	r := &Reconciler{Base: workload.New(Name, plan.Kind(), d), targets: workload.NewParsed(storedTargets)}
	r.Executor.Slice = slice
	return r
}

// Reconcile takes one ResourceDistribution a step closer to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, object, result, err := workload.Begin[appsv1beta1.ResourceDistribution](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()

	spec := plan.Parse(object)
	snapshot, err := r.observe(ctx, pass, spec)
	if err != nil {
		return r.NotObserved(ctx, pass.Stored, err, string(appsv1beta1.ResourceDistributionStalled))
	}
	todo := plan.Plan(spec, snapshot)
	outcome := pass.Apply(ctx, object, todo.Plan)
	r.remember(pass, spec, todo, outcome)
	status := plan.Status(spec, snapshot, todo, outcome)
	return pass.Report(ctx, object, workload.Report{
		Status: status, Action: "Distribute", Events: plan.Events(&object.Status, &status),
	})
}
