// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package batchrelease

import (
	"context"
	"errors"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/batchrelease/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/kube/released"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "batchrelease-controller"

const (
	// lookEvery is between looks at a workload that moves. Not all about its pods is in its status.
	lookEvery = time.Second
	// lookRarely is between those at one that does not go on.
	lookRarely = 10 * time.Second
	// patience is how long pods may take to be ready before messages name them.
	patience = 10 * time.Second
	// countEvery is between writes of nothing but counts.
	countEvery = 5 * time.Second
	// gather is how long statuses of a workload are collected.
	gather = 100 * time.Millisecond
	// soon is when to go on after a stored decision.
	soon = 10 * time.Millisecond
)

// +kubebuilder:rbac:groups=rollouts.kruise.io,resources=batchreleases,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=rollouts.kruise.io,resources=batchreleases/status,verbs=patch
// +kubebuilder:rbac:groups=rollouts.kruise.io,resources=batchreleases/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=create;delete
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;daemonsets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps,resources=replicasets,verbs=list;patch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=list
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets;statefulsets;daemonsets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=list;patch
// +kubebuilder:rbac:groups=keda.sh,resources=scaledobjects,verbs=get;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;delete;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles BatchReleases.
type Reconciler struct {
	*workload.Base
	// labels: pods get labels of their release. keeps: a workload stays held when its release is ended early. deployments: Deployments of
	// Kubernetes have batches.
	labels, keeps, deployments bool
}

// Setup makes the manager run the reconciler of BatchReleases.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	r := &Reconciler{
		Base: workload.New(Name, plan.Kind(), d), labels: c.Features.Enabled(features.RolloutPodLabels),
		keeps: c.Features.Enabled(features.KeepWorkloadPausedOnRolloutDeletion), deployments: c.Features.Enabled(features.AdvancedDeployment),
	}
	r.Status.Interval = countEvery
	return r.Setup(ctx, mgr, r, workload.Watches{})
}

// Reconcile takes one release one write further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, release, result, err := workload.Begin[v1beta1.BatchRelease](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()
	if release.DeletionTimestamp != nil && !slices.Contains(release.Finalizers, shared.FinalizerBatchRelease) {
		return pass.Finish(nil)
	}
	began := r.Clock.Now()
	o, err := r.observe(ctx, release)
	pass.Waited(r.Clock.Now().Sub(began))
	if errors.Is(err, released.ErrMoved) {
		return pass.Finish(nil, workload.Busy)
	}
	if err != nil {
		return r.NotObserved(ctx, pass.Stored, err, v1beta1.BatchReleaseStalled)
	}
	decision := decide(release, o.snapshot)
	pass.LookAgain(decision.After, o.again)
	switch {
	case decision.Ended && release.DeletionTimestamp != nil:
		apply(ctx, pass, release, finalizers(release, false))
		return pass.Finish(nil)
	case release.DeletionTimestamp == nil && o.snapshot.Workload != nil && !slices.Contains(release.Finalizers, shared.FinalizerBatchRelease):
		apply(ctx, pass, release, finalizers(release, true))
		return pass.Finish(nil, soon)
	}
	report := workload.Report{
		Status: decision.Status, Action: "Release", Events: plan.Events(&release.Status, &decision.Status),
	}
	if plan.SameCursor(&release.Status, &decision.Status) {
		r.act(ctx, pass, release, o, decision)
		return pass.Report(ctx, release, report)
	}
	// A stored status comes before what is done for it.
	report.Urgent, report.Then = true, func() error {
		if !decision.Acts() {
			pass.LookAgain(soon)
		}
		r.act(ctx, pass, release, o, decision)
		return nil
	}
	return pass.Report(ctx, release, report)
}

// mostCursors is how many cursors follow each other at once.
const mostCursors = 4

// decide plans as far as nothing is to be done. The cursors in between need not be stored; a batch that is ready is told.
func decide(release *v1beta1.BatchRelease, s plan.Snapshot) plan.Decision {
	decision, at := plan.Plan(release, s), release
	for range mostCursors {
		ready := decision.Status.CanaryStatus.CurrentBatchState == v1beta1.BatchStateReady
		if decision.Acts() || decision.Ended || ready || plan.SameCursor(&at.Status, &decision.Status) {
			break
		}
		at = at.DeepCopy()
		at.Status = decision.Status
		decision = plan.Plan(at, s)
	}
	return decision
}

// act does what was decided, and looks again while the workload moves.
func (r *Reconciler) act(ctx context.Context, pass *workload.Pass, release *v1beta1.BatchRelease, o *observed, d plan.Decision) {
	apply(ctx, pass, release, o.actions(release, d)...)
	switch {
	case len(d.Label) > 0: // no event tells of them
		pass.LookAgain(workload.Busy)
	case d.Moving && d.Stalled:
		pass.LookAgain(lookRarely)
	case d.Moving:
		pass.LookAgain(lookEvery)
	}
}

// apply carries out writes. What is refused becomes an event, and is tried again.
func apply(ctx context.Context, pass *workload.Pass, release *v1beta1.BatchRelease, actions ...planning.Action) {
	if len(actions) > 0 {
		pass.Apply(ctx, release, pass.Budgeted(ctx, planning.Plan{Actions: actions}))
	}
}
