// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package uniteddeployment

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/controllers/uniteddeployment/admission"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the kind UnitedDeployment for the operator.
func Value() controller.Kind {
	return controller.Kind{
		Entry: kinds.Kind{
			Name: "UnitedDeployment", Plural: "uniteddeployments", Group: "apps.kruise.io",
			Scope: kinds.Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1", Scale: true,
			Controller: kinds.Optional, WorkersFlag: "uniteddeployment-workers", Protected: true, Users: kinds.Edit,
			Needs: kinds.Needs{OwnsRevisions: true, Controls: []schema.GroupVersionKind{
				{Group: "apps", Version: "v1", Kind: "Deployment"},
				{Group: "apps", Version: "v1", Kind: "StatefulSet"},
				{Group: "apps.kruise.io", Version: "v1beta1", Kind: "CloneSet"},
				{Group: "apps.kruise.io", Version: "v1beta1", Kind: "StatefulSet"},
			}},
		},
		Name:      Name,
		Setup:     Setup,
		Admission: func(d admit.Deps) admit.Rules { return admission.Kind(admission.Workloads{Client: d.Client}) },
	}
}

// Setup makes the manager run the reconciler of UnitedDeployments.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	r := New(d, workload.Managed(mgr.GetRESTMapper(), c))
	return r.Setup(ctx, mgr, r, workload.Watches{Revisions: true})
}
