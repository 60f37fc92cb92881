// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package baton pauses Deployments.
package baton

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "baton-controller"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=batons,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=batons/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=patch

// Reconciler reconciles Batons.
type Reconciler struct{ *workload.Base }

// Setup makes the manager run the reconciler of Batons.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, _ *config.Config) error {
	r := &Reconciler{workload.New(Name, appsv1beta1.GroupVersion().WithKind("Baton"), d)}
	return r.Setup(ctx, mgr, r, workload.Watches{})
}

// Reconcile pauses the Deployment that a Baton names.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, baton, result, err := workload.Begin[appsv1beta1.Baton](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: baton.Namespace, Name: baton.Spec.Deployment}}
	pause := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":true}}`))
	return pass.Finish(client.IgnoreNotFound(r.Client.Patch(ctx, deployment, pause)))
}
