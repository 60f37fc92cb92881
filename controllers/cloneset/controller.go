// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/cloneset/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "cloneset-controller"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/status;pods/resize,verbs=patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=containerrecreaterequests,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles CloneSets.
type Reconciler struct {
	*workload.Base
	// Options are the feature gates and flags.
	Options plan.Options
}

// memory is the memory of a set between its passes. Its loss does no harm: an instance ID stays
// unused, or an event is repeated.
type memory struct {
	// candidates are unused instance IDs for new pods.
	candidates []planning.Slot
	// emitted is the plan behind the last events.
	emitted planning.Plan
}

// New returns a Reconciler without watches.
func New(d workload.Dependencies, o plan.Options) *Reconciler {
	return &Reconciler{Base: workload.New(Name, plan.Kind(), d), Options: o}
}

// Reconcile takes one CloneSet a step closer to its spec, when it is due and the cache shows all earlier writes for it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, set, result, err := workload.Begin[appsv1beta1.CloneSet](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()

	memory := remembered(pass.Memory)
	spec := plan.Parse(set, r.Options)
	observed, err := r.prepare(ctx, pass, spec)
	if err != nil {
		return r.NotObserved(ctx, pass.Stored, err, string(appsv1beta1.CloneSetFailedUpdate))
	}
	pass.AskOthers(ctx, set, &observed.Snapshot, &set.Spec.Template, set.Spec.VolumeClaimTemplates...)
	todo := pass.Budgeted(ctx, plan.Plan(spec, observed.Snapshot))
	outcome := pass.Apply(ctx, set, todo)
	pulls := pass.PullImages(ctx, set, plan.PreDownload(spec, observed.Snapshot))
	status, recheck := plan.Status(spec, observed.Snapshot, todo, outcome, pulls...)
	pass.LookAgain(recheck)
	return pass.Report(ctx, set, workload.Report{
		Status: status, Action: "Update", Events: plan.Events(spec, status, memory.emitted, todo),
		Then: func() error {
			memory.emitted = planning.Plan{Held: todo.Held}
			trimmed := r.TrimRevisions(ctx, set, observed, set.Spec.RevisionHistoryLimit, status.CurrentRevision, status.UpdateRevision)
			return errors.Join(trimmed, r.prune(ctx, spec, observed.Snapshot.Pods))
		},
		Failed: observed.Failed,
	})
}

// remembered returns the memory of a set.
func remembered(m *workload.Memory) *memory {
	return workload.Own(m, func() *memory { return &memory{} })
}
