// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "cloneset-controller"

// Kind is the kind that is reconciled, in the version that is stored.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion().WithKind("CloneSet") }

// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/status;pods/resize,verbs=patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles CloneSets.
type Reconciler struct {
	*workload.Tools
	// Options are the feature gates and flags.
	Options Options

	mu     sync.Mutex
	memory map[types.NamespacedName]*memory
}

// memory is what is remembered of a set between its passes, for its own sake alone: losing it costs a name or repeats an event.
type memory struct {
	uid types.UID
	// candidates are instance IDs for new pods that no pod was seen with yet.
	candidates []podset.Slot
	// announced is the plan whose events were emitted last.
	announced podset.Plan
}

// New returns a Reconciler that watches nothing yet.
func New(d workload.Dependencies, o Options) *Reconciler {
	return &Reconciler{Tools: workload.New(Name, Kind(), d), Options: o, memory: map[types.NamespacedName]*memory{}}
}

// SetupWithManager makes the manager run the reconciler.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := r.Run(mgr, r); err != nil {
		return err
	}
	return r.Watch(ctx, ofPod)
}

// Reconcile takes one CloneSet a step closer to its spec, when it is its turn and the view of it is complete.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	stored, err := r.Stored(ctx, req.NamespacedName)
	if stored == nil {
		if err == nil {
			r.forget(req.NamespacedName)
		}
		return ctrl.Result{}, err
	}
	leave, wait := r.Turn(ctx, stored)
	if leave == nil {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	defer leave()

	set, err := workload.Decode[appsv1beta1.CloneSet](stored)
	if err != nil {
		return r.ReportUndecodable(ctx, stored, err)
	}
	return r.pass(ctx, stored, set)
}

// pass is one pass over a set: observe, plan, apply, report.
func (r *Reconciler) pass(ctx context.Context, stored *unstructured.Unstructured, set *appsv1beta1.CloneSet) (ctrl.Result, error) {
	began := r.Clock.Now()
	memory := r.remember(set)
	seen, err := r.observe(ctx, set, memory)
	if err != nil {
		return r.NotObserved(ctx, stored, err, string(appsv1beta1.CloneSetFailedUpdate))
	}
	cost := r.Clock.Since(began)
	seen.snapshot.UpdateFault = r.templateFault(ctx, set, seen.snapshot.Update.Name)

	began = r.Clock.Now()
	plan := Plan(set, seen.snapshot, seen.options)
	cost += r.Clock.Since(began)

	// The status is written even when some action failed: it is how the user learns about it.
	outcome := r.Executor.Apply(ctx, set, plan)
	ahead, aheadWait := r.preDownload(ctx, set, seen.snapshot)

	began = r.Clock.Now()
	status, recheck := Status(set, seen.snapshot, plan, outcome, seen.options, ahead...)
	status.CollisionCount = ptr.To(ptr.Deref(seen.revisions.CollisionCount, 0))
	cost += r.Clock.Since(began)
	statusWait, statusErr := r.Status.Write(ctx, stored, status, urgent(set.Status, status))
	var trimErr error
	if statusErr == nil && statusWait == 0 {
		r.Announce(set, announcements(set, status, memory.announced, plan))
		memory.announced = podset.Plan{Held: plan.Held}
		trimErr = r.Trim(ctx, set, set.Spec.RevisionHistoryLimit, seen.revisions.Stored, seen.snapshot.Pods, status.CurrentRevision, status.UpdateRevision)
	}
	pruneErr := r.prune(ctx, set, seen.snapshot.Pods)
	r.Pacer.Passed(client.ObjectKeyFromObject(set), set.Generation, cost)

	if err := errors.Join(seen.failed, statusErr, trimErr, pruneErr); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: workload.Earliest(plan.RecheckAfter, outcome.RecheckAfter, statusWait, recheck, aheadWait)}, nil
}

// preDownload has the images of an update pulled ahead of it, where that is on.
func (r *Reconciler) preDownload(ctx context.Context, set *appsv1beta1.CloneSet, s podset.Snapshot) ([]podset.Condition, time.Duration) {
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
func (r *Reconciler) templateFault(ctx context.Context, set *appsv1beta1.CloneSet, update string) string {
	faulty := slices.ContainsFunc(set.Status.Conditions, func(c appsv1beta1.CloneSetCondition) bool {
		return c.Type == appsv1beta1.CloneSetTemplateInvalid
	})
	return r.TemplateFault(ctx, set, workload.Template{
		Revision: update, Pod: &set.Spec.Template, Claims: set.Spec.VolumeClaimTemplates,
		Passed: set.Status.UpdateRevision == update && !faulty,
	})
}

// urgent says whether a changed status is more than moving counters, in fields or in the messages and times of conditions.
func urgent(before, after appsv1beta1.CloneSetStatus) bool {
	return before.ObservedGeneration != after.ObservedGeneration ||
		before.ExpectedUpdatedReplicas != after.ExpectedUpdatedReplicas ||
		before.CurrentRevision != after.CurrentRevision ||
		before.UpdateRevision != after.UpdateRevision ||
		before.LabelSelector != after.LabelSelector ||
		ptr.Deref(before.CollisionCount, 0) != ptr.Deref(after.CollisionCount, 0) ||
		!slices.EqualFunc(before.Conditions, after.Conditions, func(a, b appsv1beta1.CloneSetCondition) bool {
			return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason
		})
}

// remember returns what is remembered of a set. Only the worker that has the set uses it.
func (r *Reconciler) remember(set *appsv1beta1.CloneSet) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := client.ObjectKeyFromObject(set)
	known := r.memory[name]
	if known == nil || known.uid != set.UID {
		known = &memory{uid: set.UID}
		r.memory[name] = known
	}
	return known
}

func (r *Reconciler) forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.memory, name)
}
