// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package persistentpodstate

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/persistentpodstate/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "persistentpodstate-controller"

// lookEvery is between looks at workloads of listed kinds, which are not watched.
const lookEvery = time.Minute

// +kubebuilder:rbac:groups=apps.kruise.io,resources=persistentpodstates,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=persistentpodstates/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles PersistentPodStates.
type Reconciler struct {
	*workload.Base
	// namespace is the operator's.
	namespace string
	// hooked tells of the hooks on pods of others; nil in unit tests.
	hooked *workload.Hooked
}

// Setup makes the manager run the reconciler of PersistentPodStates, what registers their hook, and what creates some for
// annotations.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	r := &Reconciler{Base: workload.New(Name, plan.Kind(), d), namespace: c.Namespace}
	var err error
	if r.hooked, err = r.FollowHooks(mgr, d, Name, hooksOf); err != nil {
		return err
	}
	if err := r.setupGenerator(mgr, d); err != nil {
		return err
	}
	return r.Setup(ctx, mgr, r, workload.Watches{Pods: r.ofPod, PodChanged: changed, NodeChanges: r.ofNode})
}

// Reconcile records the places of one PersistentPodState.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, state, result, err := workload.Begin[appsv1beta1.PersistentPodState](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()

	spec := plan.Parse(state)
	snapshot, err := r.observe(ctx, pass, spec)
	if err != nil {
		return r.NotObserved(ctx, pass.Stored, err, appsv1beta1.PersistentPodStateStalled)
	}
	status := plan.Status(spec, snapshot)
	return pass.Report(ctx, state, workload.Report{
		Status: status, Urgent: plan.Urgent(&state.Status, &status), Action: "Remember", Events: plan.Events(&state.Status, &status),
	})
}
