// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package abacus counts the beads of Abaci.
package abacus

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "abacus-controller"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=abaci,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=abaci/status,verbs=patch

// Reconciler reconciles Abaci.
type Reconciler struct{ client.Client }

// Setup makes the manager run the reconciler of Abaci.
func Setup(_ context.Context, mgr ctrl.Manager, d workload.Dependencies, _ *config.Config) error {
	return ctrl.NewControllerManagedBy(mgr).Named(Name).For(&appsv1beta1.Abacus{}).Complete(&Reconciler{Client: d.Client})
}

// Reconcile writes the sum of an Abacus's beads into its status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	abacus := &appsv1beta1.Abacus{}
	if err := r.Get(ctx, req.NamespacedName, abacus); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := abacus.DeepCopy()
	abacus.Status.Sum = 0
	for _, beads := range abacus.Spec.Beads {
		abacus.Status.Sum += beads
	}
	return ctrl.Result{}, r.Status().Patch(ctx, abacus, client.MergeFrom(before))
}
