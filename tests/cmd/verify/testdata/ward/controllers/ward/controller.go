// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package ward keeps pods from being deleted.
package ward

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "ward-controller"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=wards,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=wards/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch

// Reconciler reconciles Wards.
type Reconciler struct{ *workload.Base }

// Setup makes the manager run the reconciler of Wards.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, _ *config.Config) error {
	r := &Reconciler{workload.New(Name, appsv1beta1.GroupVersion().WithKind("Ward"), d)}
	return r.Setup(ctx, mgr, r, workload.Watches{})
}

// Reconcile counts the pods a Ward guards.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, _, result, err := workload.Begin[appsv1beta1.Ward](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()
	wards := labels.SelectorFromSet(labels.Set{"ward": "yes"})
	var pods corev1.PodList
	err = r.Client.List(ctx, &pods, client.InNamespace(req.Namespace), client.MatchingLabelsSelector{Selector: wards}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return ctrl.Result{}, err
	}
	wait, err := pass.WriteStatus(ctx, appsv1beta1.WardStatus{Count: int32(len(pods.Items))}, false)
	return pass.Finish(err, wait)
}
