// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagepulljob

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/controllers/imagepulljob/admission"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the kind ImagePullJob for the operator.
func Value() controller.Kind {
	return controller.Kind{
		// Of pods it needs only which run where.
		Entry: kinds.Kind{
			Name: "ImagePullJob", Plural: "imagepulljobs", Group: "apps.kruise.io",
			Scope: kinds.Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "imagepulljob-workers", NodeDaemon: true, Users: kinds.Edit,
			Needs: kinds.Needs{ReadsNodes: true},
		},
		Name:      Name,
		Setup:     Setup,
		Admission: func(d admit.Deps) admit.Rules { return admission.Kind(d.Gates.Enabled(features.KruiseDaemon)) },
	}
}

// Setup makes the manager run the reconciler of ImagePullJobs.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, _ *config.Config) error {
	r := New(d)
	return r.Setup(ctx, mgr, r, workload.Watches{Pods: r.byPods, PodChanged: placedOtherwise, Nodes: r.unfinished})
}
