// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/rollout/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/script"
	"github.com/kruise-operator/kruise-operator/internal/kube/routes"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "rollout-controller"

// +kubebuilder:rbac:groups=rollouts.kruise.io,resources=rollouts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=rollouts.kruise.io,resources=rollouts/status,verbs=patch
// +kubebuilder:rbac:groups=rollouts.kruise.io,resources=rollouts/finalizers,verbs=update
// +kubebuilder:rbac:groups=rollouts.kruise.io,resources=batchreleases,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rollouts.kruise.io,resources=trafficroutings,verbs=list;watch;patch
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;daemonsets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps,resources=replicasets;controllerrevisions,verbs=list
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets;statefulsets;daemonsets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles Rollouts.
type Reconciler struct {
	*workload.Base
	// hooked tells of the brake; nil in unit tests.
	hooked *workload.Hooked
	// labeled are the workloads of Kubernetes under the brake, rows their kinds and those of ours that are served.
	labeled labeled
	rows    []rollable.Workload
	// shares: somebody carries out TrafficRoutings.
	shares bool
	// strays is since when a Rollout of a workload, by its UID, is not stored.
	strays sync.Map
	routes routes.Reader
	// appends adds labels of new pods to the selector of their Service.
	appends bool
}

// New returns a Reconciler without watches.
func New(d workload.Dependencies) *Reconciler {
	r := &Reconciler{Base: workload.New(Name, kind(), d)}
	r.routes = routes.Reader{Objects: r.Writer, Scripts: script.New()}
	return r
}

// Reconcile takes one Rollout a step further. What a decision says is stored before it is done.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if wait, err := r.abandon(ctx, req.NamespacedName); err != nil || wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, err
	}
	pass, rollout, result, err := workload.Begin[v1beta1.Rollout](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()
	plan.Unify(rollout)
	used, err := r.observeShared(ctx, rollout)
	if err != nil {
		return r.notObserved(ctx, pass, err)
	}
	if r.quiet(rollout) && !used.held() {
		return pass.Finish(nil)
	}
	memory := workload.Own(pass.Memory, func() *workload.Refused { return &workload.Refused{} })
	if first := keeping(rollout); first != nil && memory.Last == "" {
		memory.Apply(ctx, pass, rollout, first)
		return pass.Finish(nil)
	}
	began := r.Clock.Now()
	seen, err := r.observe(ctx, rollout)
	if errors.Is(err, errMoved) {
		seen, err = r.observe(ctx, rollout)
	}
	pass.Waited(r.Clock.Now().Sub(began))
	if err != nil {
		return r.notObserved(ctx, pass, err)
	}
	seen.Fault, seen.shared = memory.Last, used
	if used != nil {
		seen.Shared = &used.Shared
	}
	todo := decide(rollout, seen)
	pass.LookAgain(todo.After)
	if wait, err := pass.WriteStatus(ctx, plan.Divide(rollout, todo.Status), todo.Act != "" || moved(&rollout.Status, &todo.Status)); err != nil || wait > 0 {
		return pass.Finish(err, wait)
	}
	if result := ended(&rollout.Status, &todo.Status); result != "" {
		r.Metrics.Releases.WithLabelValues(result).Inc()
	}
	pass.EmitEvents(rollout, "Release", todo.Events)
	memory.Apply(ctx, pass, rollout, actions(rollout, seen, todo))
	return pass.Finish(nil)
}

// mostStates is how many states of a step follow each other at once.
const mostStates = 8

// decide plans as far as nothing is to be done or waited for. The states in between need not be stored.
func decide(rollout *v1beta1.Rollout, seen *seen) plan.Decision {
	snapshot := seen.Snapshot
	todo, at := plan.Plan(rollout, snapshot), rollout
	snapshot.World = nil // it is what the stored status needs
	for range mostStates {
		if !passes(&at.Status, seen.Release, todo) {
			break
		}
		at = at.DeepCopy()
		at.Status = todo.Status
		events := todo.Events
		todo = plan.Plan(at, snapshot)
		todo.Events = append(events, todo.Events...)
	}
	return todo
}

// passes: a decision takes a release to another state, and orders nothing new.
func passes(before *v1beta1.RolloutStatus, release *v1beta1.BatchRelease, d plan.Decision) bool {
	rolling := func(s *v1beta1.RolloutStatus) bool {
		return s.Phase == v1beta1.RolloutPhaseProgressing && plan.ConditionOf(s, v1beta1.RolloutConditionProgressing).Reason == v1beta1.ReasonInRolling
	}
	return rolling(before) && rolling(&d.Status) &&
		(before.CurrentStepIndex != d.Status.CurrentStepIndex || before.CurrentStepState != d.Status.CurrentStepState) &&
		!d.Hold && !d.LetGo && !d.Drop && !d.Unmark && !d.Guard && !d.Unguard && !d.Catch && !d.Ended &&
		(d.Order == nil || release != nil && release.DeletionTimestamp == nil && equality.Semantic.DeepEqual(release.Spec, *d.Order))
}

// notObserved handles a failed look. A workload that changed meanwhile is looked at again.
func (r *Reconciler) notObserved(ctx context.Context, pass *workload.Pass, err error) (ctrl.Result, error) {
	if errors.Is(err, errMoved) {
		return ctrl.Result{RequeueAfter: workload.Busy}, nil
	}
	return r.NotObserved(ctx, pass.Stored, err, v1beta1.RolloutConditionStalled)
}

// moved: more than counters changed.
func moved(before, after *v1beta1.RolloutStatus) bool {
	x, y := before.DeepCopy(), after.DeepCopy()
	for _, s := range []*v1beta1.RolloutStatus{x, y} {
		if s.CanaryStatus != nil {
			s.CanaryStatus.CanaryReplicas, s.CanaryStatus.CanaryReadyReplicas, s.CanaryStatus.LastUpdateTime = 0, 0, nil
		}
	}
	return !equality.Semantic.DeepEqual(x, y)
}
