// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagelistpulljob

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/controllers/imagelistpulljob/admission"
	"github.com/kruise-operator/kruise-operator/controllers/imagelistpulljob/plan"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the kind ImageListPullJob for the operator.
func Value() controller.Kind {
	return controller.Kind{
		// Its ImagePullJobs are cached for their own kind.
		Entry: kinds.Kind{
			Name: "ImageListPullJob", Plural: "imagelistpulljobs", Group: "apps.kruise.io",
			Scope: kinds.Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "imagelistpulljob-workers", Users: kinds.Edit,
		},
		Name:      Name,
		Setup:     Setup,
		Admission: func(d admit.Deps) admit.Rules { return admission.Kind(d.Gates.Enabled(features.KruiseDaemon)) },
	}
}

// Setup makes the manager run the reconciler of ImageListPullJobs.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	managed := workload.Managed(mgr.GetRESTMapper(), c)
	r := &Reconciler{Base: workload.New(Name, plan.Kind(), d), managed: managed(plan.KindImagePullJob())}
	return r.Setup(ctx, mgr, r, workload.Watches{})
}
