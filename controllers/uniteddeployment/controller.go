// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package uniteddeployment

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/uniteddeployment/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/history"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// Name is the name of the controller, and the reportingController of its events.
const Name = "uniteddeployment-controller"

// historyLimit is revisionHistoryLimit when it is omitted.
const historyLimit = 10

// +kubebuilder:rbac:groups=apps.kruise.io,resources=uniteddeployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=uniteddeployments/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=uniteddeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets;statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=statefulsets;deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;patch;delete
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles UnitedDeployments.
type Reconciler struct {
	*workload.Base
	// managed is true for kinds of workloads switched on in the operator.
	managed func(schema.GroupVersionKind) bool
	// follow starts the watch of a kind of workloads, once; see workload.Base.WatchLate.
	follow func(context.Context, *unstructured.Unstructured) error
}

// gather is how long the statuses of workloads are collected before they are looked at. A rollout of hundreds of workloads changes them many
// times a second, and each pass looks at all.
const gather = 250 * time.Millisecond

// New returns a Reconciler without watches.
func New(d workload.Dependencies, managed func(schema.GroupVersionKind) bool) *Reconciler {
	r := &Reconciler{Base: workload.New(Name, united.Kind(), d), managed: managed}
	r.follow = func(ctx context.Context, object *unstructured.Unstructured) error {
		return r.WatchLateGathering(ctx, object, r.Controller, gather, cache.IndexByController)
	}
	return r
}

// appliedRecheck is when to look again after a pass with writes. An apply without a change makes no
// event, and the status would say for ever that it is under way.
const appliedRecheck = 2 * time.Second

// Reconcile is one pass over one UnitedDeployment.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, set, result, err := workload.Begin[appsv1beta1.UnitedDeployment](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()

	memory := workload.Own(pass.Memory, plan.NewMemory)
	spec := united.Parse(set)
	observed, err := r.prepare(ctx, spec, memory)
	if err != nil {
		return r.NotObserved(ctx, pass.Stored, err, string(appsv1beta1.UnitedDeploymentSubsetFailure))
	}
	todo := plan.Plan(spec, observed.snapshot)
	outcome := pass.Apply(ctx, set, todo.Plan)
	memory.Note(set.Generation, observed.snapshot.Children, todo, outcome)
	status := plan.Status(spec, observed.snapshot, todo, outcome)
	status.CollisionCount = ptr.To(ptr.Deref(observed.collisionCount, 0))
	if len(todo.Actions) > 0 {
		pass.LookAgain(appliedRecheck)
	}
	pass.LookAgain(observed.lookAgain)
	return pass.Report(ctx, set, workload.Report{
		Status: status, Urgent: plan.Urgent(&set.Status, &status), Action: "Update", Events: plan.Events(spec, status),
		Then: func() error { return r.trim(ctx, spec, observed, &status) },
	})
}

// trim deletes unneeded revisions beyond the limit.
func (r *Reconciler) trim(ctx context.Context, spec *united.Spec, observed observation, status *appsv1beta1.UnitedDeploymentStatus) error {
	most := int(ptr.Deref(spec.Set.Spec.RevisionHistoryLimit, historyLimit))
	if spec.Deleting || spec.Invalid != nil || len(observed.stored) <= most {
		return nil
	}
	live := sets.New(status.CurrentRevision, status.UpdatedRevision)
	for _, known := range observed.stored {
		uses := func(c plan.Child) bool { return c.Revision == united.RevisionLabel(known.Name) }
		if slices.ContainsFunc(observed.snapshot.Children, uses) {
			live.Insert(known.Name)
		}
	}
	return history.Trim(ctx, r.History, freshness.OwnerOf(spec.Set), observed.stored, live, most)
}
