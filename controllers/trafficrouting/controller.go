// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package trafficrouting

import (
	"context"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1alpha1"
	"github.com/kruise-operator/kruise-operator/controllers/trafficrouting/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/script"
	"github.com/kruise-operator/kruise-operator/internal/kube/routes"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "trafficrouting-controller"

// +kubebuilder:rbac:groups=rollouts.kruise.io,resources=trafficroutings,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=rollouts.kruise.io,resources=trafficroutings/status,verbs=patch
// +kubebuilder:rbac:groups=rollouts.kruise.io,resources=trafficroutings/finalizers,verbs=update
// +kubebuilder:rbac:groups=rollouts.kruise.io,resources=rollouts,verbs=get;list;watch
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=httproutes;grpcroutes,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups="",namespace=kruise-system,resources=configmaps,resourceNames=kruise-rollout-configuration,verbs=get
// +kubebuilder:rbac:groups="",resources=services,verbs=get
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles TrafficRoutings.
type Reconciler struct {
	*workload.Base
	routes routes.Reader
}

// Setup makes the manager run the reconciler of TrafficRoutings.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	r := &Reconciler{Base: workload.New(Name, plan.Kind(), d)}
	r.routes = routes.Reader{Objects: r.Writer, Scripts: script.New(), Namespace: c.Namespace}
	return r.Setup(ctx, mgr, r, workload.Watches{OthersWriteStatus: true})
}

// Reconcile takes one TrafficRouting one write further. Finalizers come first, and alone. What a decision says is stored before it is done.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, object, result, err := workload.Begin[v1alpha1.TrafficRouting](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()
	if object.DeletionTimestamp != nil && !slices.ContainsFunc(object.Finalizers, ours) {
		return pass.Finish(nil) // others keep it
	}
	memory := workload.Own(pass.Memory, func() *workload.Refused { return &workload.Refused{} })
	seen, places, err := r.observe(ctx, object)
	if err != nil {
		return r.NotObserved(ctx, pass.Stored, err, v1alpha1.TrafficRoutingStalled)
	}
	seen.Fault = memory.Last
	todo := plan.Plan(object, seen)
	if !slices.Equal(object.Finalizers, todo.Finalizers) {
		memory.Apply(ctx, pass, object, finalizers(object, todo.Finalizers))
		return pass.Finish(nil)
	}
	pass.LookAgain(todo.After)
	if wait, err := pass.WriteStatus(ctx, todo.Status, todo.Act != ""); err != nil || wait > 0 {
		return pass.Finish(err, wait)
	}
	pass.EmitEvents(object, "Route", todo.Events)
	writes := &routes.Writes{Owner: object, Kind: plan.Kind(), Act: todo.Act}
	writes.Routes(places)
	memory.Apply(ctx, pass, object, writes.All())
	return pass.Finish(nil)
}

// ours says that a finalizer is the operator's.
func ours(finalizer string) bool {
	return finalizer == shared.FinalizerTrafficRouting || len(plan.Named([]string{finalizer})) > 0
}

func finalizers(o *v1alpha1.TrafficRouting, all []string) []planning.Action {
	return []planning.Action{{
		Verb: planning.VerbPatch, Step: "Finalizer", Kind: plan.Kind(), Object: o, Reason: "Finalizer",
		Change:  planning.MetadataPatch(o, map[string]any{"finalizers": all}),
		Failure: planning.Event{Warning: true, Reason: "FailedFinalizer", Message: "Changing the finalizers"},
	}}
}
