// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package ward keeps pods from being deleted.
package ward

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "ward-controller"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=wards,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=wards/status,verbs=patch

// Reconciler reconciles Wards.
type Reconciler struct{ *workload.Base }

// Setup makes the manager run the reconciler of Wards.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, _ *config.Config) error {
	r := &Reconciler{workload.New(Name, appsv1beta1.GroupVersion().WithKind("Ward"), d)}
	return r.Setup(ctx, mgr, r, workload.Watches{})
}

// Reconcile says that a Ward was seen.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, _, result, err := workload.Begin[appsv1beta1.Ward](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()
	wait, err := pass.WriteStatus(ctx, appsv1beta1.WardStatus{Count: 1}, false)
	return pass.Finish(err, wait)
}
