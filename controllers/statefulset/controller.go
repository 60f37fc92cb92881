// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/statefulset/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "statefulset-controller"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/status;pods/resize,verbs=patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=containerrecreaterequests,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles StatefulSets.
type Reconciler struct {
	*workload.Base
	// Options are the feature gates.
	Options plan.Options
}

// New returns a Reconciler without watches.
func New(d workload.Dependencies, o plan.Options) *Reconciler {
	return &Reconciler{Base: workload.New(Name, plan.Kind(), d), Options: o}
}

// Reconcile takes one StatefulSet a step closer to its spec, when it is due and the cache shows all earlier writes for it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, set, result, err := workload.Begin[appsv1beta1.StatefulSet](ctx, r.Base, req.NamespacedName, string(appsv1beta1.StatefulSetProgressing))
	if pass == nil {
		return result, err
	}
	defer pass.End()

	spec := plan.Parse(set, r.Options)
	observed, err := r.prepare(ctx, pass, spec)
	if err != nil {
		return r.NotObserved(ctx, pass.Stored, err, string(appsv1beta1.StatefulSetFailedCreatePod))
	}
	pass.AskOthers(ctx, set, &observed.Snapshot, &set.Spec.Template, set.Spec.VolumeClaimTemplates...)
	todo := pass.Budgeted(ctx, plan.Plan(spec, observed.Snapshot))
	outcome := pass.Apply(ctx, set, todo)
	pulls := pass.PullImages(ctx, set, plan.PreDownload(spec, observed.Snapshot))
	status := plan.Status(spec, observed.Snapshot, todo, outcome, pulls...)
	return pass.Report(ctx, set, workload.Report{
		Status: status, Action: "Update", Events: plan.Events(spec, status),
		Then: func() error {
			return r.TrimRevisions(ctx, set, observed, set.Spec.RevisionHistoryLimit, status.CurrentRevision, status.UpdateRevision)
		},
		Failed: observed.Failed,
	})
}
