// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagepulljob

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/imagepulljob/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "imagepulljob-controller"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=imagepulljobs,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=imagepulljobs/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=nodeimages,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kruise-daemon-config,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles ImagePullJobs.
type Reconciler struct {
	*workload.Base
	// follow watches the NodeImages.
	follow func(context.Context) error
}

// memory is kept of a job.
type memory struct {
	copies  copies
	answers plan.Answers
}

// remember returns the memory of a pass's job.
func remember(pass *workload.Pass) *memory {
	return workload.Own(pass.Memory, func() *memory { return &memory{} })
}

// New returns a Reconciler without watches.
func New(d workload.Dependencies) *Reconciler {
	r := &Reconciler{Base: workload.New(Name, plan.Kind(), d)}
	r.follow = func(ctx context.Context) error {
		return r.WatchLate(ctx, workload.Object(plan.KindNodeImage()), jobsOf)
	}
	return r
}

// Reconcile takes one ImagePullJob a step closer to its end, when it is due and the cache shows all earlier writes for it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, job, result, err := workload.Begin[appsv1beta1.ImagePullJob](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()

	spec := plan.Parse(job)
	snapshot, secretsWait, err := r.observe(ctx, pass, spec)
	if err != nil {
		return r.NotObserved(ctx, pass.Stored, err, appsv1beta1.ImagePullJobFailedCreate)
	}
	snapshot.Retries = pass.Retries()
	todo := plan.Plan(spec, snapshot)
	for _, answer := range remember(pass).answers.New(spec, todo) {
		r.Metrics.ImagePullAnswers.WithLabelValues(answer.Result).Inc()
		r.Metrics.ImagePullLatency.Observe(answer.Took.Seconds())
	}
	outcome := pass.Apply(ctx, job, todo.Plan)
	pass.LookAgain(secretsWait)
	status := plan.Status(spec, snapshot, todo, outcome)
	return pass.Report(ctx, job, workload.Report{
		Status: status, Action: "Pull", Events: plan.Events(&job.Status, &status, snapshot),
	})
}
