// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/daemonset/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "daemonset-controller"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=daemonsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=daemonsets/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=daemonsets/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/status;pods/resize,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=containerrecreaterequests,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles DaemonSets.
type Reconciler struct {
	*workload.Base
	// Options are the feature gates and flags.
	Options plan.Options
}

// Reconcile takes one DaemonSet a step closer to its spec, when it is due and the cache shows all earlier writes for it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, set, result, err := workload.Begin[appsv1beta1.DaemonSet](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()

	observed, err := r.prepare(ctx, pass, set)
	if err != nil {
		return r.NotObserved(ctx, pass.Stored, err, string(appsv1beta1.DaemonSetFailedUpdate))
	}
	spec, snapshot := observed.spec, plan.Snapshot{Nodes: observed.nodes, PodName: podNames(set.Name, observed.Snapshot.Pods)}
	pass.AskOthers(ctx, set, &observed.Snapshot, &set.Spec.Template)
	snapshot.Snapshot = observed.Snapshot
	todo := pass.Budgeted(ctx, plan.Plan(spec, snapshot))
	outcome := pass.Apply(ctx, set, todo)
	pulls := pass.PullImages(ctx, set, plan.PreDownload(spec, snapshot))
	status := plan.Status(spec, snapshot, todo, outcome, pulls...)
	return pass.Report(ctx, set, workload.Report{
		Status: status, Action: "Update", Events: plan.Events(spec, status),
		Then: func() error {
			return r.TrimRevisions(ctx, set, observed.Observed, set.Spec.RevisionHistoryLimit, observed.Snapshot.Update.Name)
		},
		Failed: observed.Failed,
	})
}
