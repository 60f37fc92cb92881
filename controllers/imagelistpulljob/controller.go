// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagelistpulljob

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/imagelistpulljob/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "imagelistpulljob-controller"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=imagelistpulljobs,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=imagelistpulljobs/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=imagelistpulljobs/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps.kruise.io,resources=imagepulljobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles ImageListPullJobs.
type Reconciler struct {
	*workload.Base
	// managed: somebody carries out ImagePullJobs.
	managed bool
}

// Reconcile takes one ImageListPullJob a step closer to its end, when it is due and the cache shows all earlier writes for it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, list, result, err := workload.Begin[appsv1beta1.ImageListPullJob](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()

	spec := plan.Parse(list, r.managed)
	snapshot, err := r.observe(ctx, spec)
	if err != nil {
		return r.NotObserved(ctx, pass.Stored, err, appsv1beta1.ImagePullJobFailedCreate)
	}
	todo := plan.Plan(spec, snapshot)
	outcome := pass.Apply(ctx, list, todo.Plan)
	status := plan.Status(spec, snapshot, todo, outcome)
	return pass.Report(ctx, list, workload.Report{
		Status: status, Action: "Pull", Events: plan.Events(&list.Status, &status),
	})
}
