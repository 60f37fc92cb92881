// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"context"
	"errors"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "statefulset-controller"

// Kind is the kind that is reconciled, in the version that is stored.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion().WithKind("StatefulSet") }

// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/status;pods/resize,verbs=patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles StatefulSets.
type Reconciler struct {
	*workload.Tools
	// Options are the feature gates.
	Options Options
}

// New returns a Reconciler that watches nothing yet.
func New(d workload.Dependencies, o Options) *Reconciler {
	return &Reconciler{Tools: workload.New(Name, Kind(), d), Options: o}
}

// SetupWithManager makes the manager run the reconciler.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := r.Run(mgr, r); err != nil {
		return err
	}
	return r.Watch(ctx, r.setOfPod)
}

// Reconcile takes one StatefulSet a step closer to its spec, when it is its turn and the view of it is complete.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	stored, err := r.Stored(ctx, req.NamespacedName)
	if stored == nil {
		return ctrl.Result{}, err
	}
	leave, wait := r.Turn(ctx, stored)
	if leave == nil {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	defer leave()

	set, err := workload.Decode[appsv1beta1.StatefulSet](stored)
	if err != nil {
		return r.ReportUndecodable(ctx, stored, err, string(appsv1beta1.StatefulSetProgressing))
	}
	return r.pass(ctx, stored, set)
}

// pass is one pass over a set: observe, plan, apply, report.
func (r *Reconciler) pass(ctx context.Context, stored *unstructured.Unstructured, set *appsv1beta1.StatefulSet) (ctrl.Result, error) {
	began := r.Clock.Now()
	seen, err := r.observe(ctx, set)
	if err != nil {
		return r.NotObserved(ctx, stored, err, string(appsv1beta1.StatefulSetFailedCreatePod))
	}
	cost := r.Clock.Since(began)
	seen.snapshot.UpdateFault = r.templateFault(ctx, set, seen.snapshot.Update.Name)

	began = r.Clock.Now()
	plan := Plan(set, seen.snapshot, r.Options)
	cost += r.Clock.Since(began)

	// The status is written even when some action failed: it is how the user learns about it.
	outcome := r.Executor.Apply(ctx, set, plan)
	ahead, aheadWait := r.preDownload(ctx, set, seen.snapshot)

	began = r.Clock.Now()
	status := Status(set, seen.snapshot, plan, outcome, r.Options, ahead...)
	status.CollisionCount = ptr.To(ptr.Deref(seen.revisions.CollisionCount, 0))
	cost += r.Clock.Since(began)
	statusWait, statusErr := r.Status.Write(ctx, stored, status, urgent(set.Status, status))
	var trimErr error
	if statusErr == nil && statusWait == 0 {
		r.Announce(set, announcements(set, status))
		trimErr = r.Trim(ctx, set, set.Spec.RevisionHistoryLimit, seen.revisions.Stored, seen.snapshot.Pods, status.CurrentRevision, status.UpdateRevision)
	}
	r.Pacer.Passed(client.ObjectKeyFromObject(set), set.Generation, cost)

	if err := errors.Join(seen.failed, statusErr, trimErr); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: workload.Earliest(plan.RecheckAfter, outcome.RecheckAfter, statusWait, aheadWait)}, nil
}

// preDownload has the images of an update pulled ahead of it, where that is on.
func (r *Reconciler) preDownload(ctx context.Context, set *appsv1beta1.StatefulSet, s podset.Snapshot) ([]podset.Condition, time.Duration) {
	if r.Images == nil || set.DeletionTimestamp != nil {
		return nil, 0
	}
	about, ok := pullingWorkload(set, s, r.Options)
	if !ok {
		return nil, 0
	}
	return r.Images.Pass(ctx, set, about, neutral(set.Status.Conditions))
}

// templateFault is what the server finds wrong with the template of a set.
func (r *Reconciler) templateFault(ctx context.Context, set *appsv1beta1.StatefulSet, update string) string {
	faulty := slices.ContainsFunc(set.Status.Conditions, func(c appsv1.StatefulSetCondition) bool {
		return c.Type == appsv1beta1.StatefulSetTemplateInvalid
	})
	return r.TemplateFault(ctx, set, workload.Template{
		Revision: update, Pod: &set.Spec.Template, Claims: set.Spec.VolumeClaimTemplates,
		Passed: set.Status.UpdateRevision == update && !faulty,
	})
}

// urgent says whether a changed status is more than moving counters, in fields or in the messages of conditions.
func urgent(before, after appsv1beta1.StatefulSetStatus) bool {
	return before.ObservedGeneration != after.ObservedGeneration ||
		before.CurrentRevision != after.CurrentRevision ||
		before.UpdateRevision != after.UpdateRevision ||
		before.LabelSelector != after.LabelSelector ||
		ptr.Deref(before.CollisionCount, 0) != ptr.Deref(after.CollisionCount, 0) ||
		!slices.EqualFunc(before.Conditions, after.Conditions, func(a, b appsv1.StatefulSetCondition) bool {
			return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason
		})
}
