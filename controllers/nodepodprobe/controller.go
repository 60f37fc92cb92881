// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package nodepodprobe

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/controllers/nodepodprobe/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/selecting"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "nodepodprobe-controller"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=nodepodprobes,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=podprobemarkers,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles NodePodProbes.
type Reconciler struct {
	*workload.Base
	// off: PodProbeMarkers are switched off.
	off bool
	// controllers tell their selector labels: results never change these.
	controllers *selecting.Controllers
}

// Setup makes the manager run the reconciler of NodePodProbes.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	r := &Reconciler{
		Base: workload.New(Name, plan.Kind(), d), off: !c.Enabled(markerKind().Kind) || !c.Features.Enabled(features.PodProbeMarker),
		controllers: selecting.NewControllers(d.Live, d.Clock),
	}
	return r.Setup(ctx, mgr, r, workload.Watches{OthersWriteStatus: true, Nodes: ofNode, Pods: r.ofPod, PodsCreate: true, PodChanged: changed})
}

// Reconcile brings one node's list and its pods' results closer to the PodProbeMarkers.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, list, result, err := workload.Begin[appsv1alpha1.NodePodProbe](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()

	snapshot, err := r.observe(ctx, list)
	if err != nil {
		return r.notObserved(err)
	}
	pass.Apply(ctx, list, plan.Plan(list, snapshot))
	return pass.Finish(nil)
}
