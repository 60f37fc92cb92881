// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podprobemarker

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/controllers/podprobemarker/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "podprobemarker-controller"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=podprobemarkers,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=podprobemarkers/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=nodepodprobes,verbs=get;list;watch;create
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch;patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles PodProbeMarkers.
type Reconciler struct {
	*workload.Base
	// off says why nothing is carried out; empty when it is.
	off string
	// follow watches the lists of the nodes.
	follow func(context.Context) error
}

// Setup makes the manager run the reconciler of PodProbeMarkers.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	r := &Reconciler{Base: workload.New(Name, plan.Kind(), d)}
	r.follow = func(ctx context.Context) error {
		return r.WatchLateGathering(ctx, workload.Object(plan.KindNodePodProbe()), markersIn, gather, index)
	}
	switch {
	case !c.Features.Enabled(features.PodProbeMarker):
		r.off = "the feature gate " + string(features.PodProbeMarker) + " is off"
	case !c.Enabled(plan.KindNodePodProbe().Kind):
		r.off = "the kind NodePodProbe is off"
	}
	return r.Setup(ctx, mgr, r, workload.Watches{Pods: r.Selecting(nil), PodChanged: changed})
}

// Reconcile takes one PodProbeMarker a step closer to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, marker, result, err := workload.Begin[appsv1alpha1.PodProbeMarker](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()

	spec := plan.Parse(marker)
	snapshot, err := r.observe(ctx, pass, spec)
	if err != nil {
		return r.NotObserved(ctx, pass.Stored, err, appsv1alpha1.PodProbeMarkerStalled)
	}
	todo := plan.Plan(spec, snapshot)
	known := remember(pass)
	known.waits = todo.Waits
	outcome := pass.Apply(ctx, marker, todo.Plan)
	if _, refused := outcome.Failed(plan.StepRelease); todo.Releases() && !refused {
		return pass.Finish(nil) // it is gone, or about to be
	}
	pass.LookAgain(r.look(ctx, known, &snapshot, todo.Silent))
	status := plan.Status(spec, snapshot, todo, outcome)
	return pass.Report(ctx, marker, workload.Report{
		Status: status, Action: "Probe", Events: plan.Events(&marker.Status, &status),
	})
}
