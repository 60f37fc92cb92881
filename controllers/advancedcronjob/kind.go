// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package advancedcronjob

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/controllers/advancedcronjob/admission"
	"github.com/kruise-operator/kruise-operator/controllers/advancedcronjob/plan"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the kind AdvancedCronJob for the operator.
func Value() controller.Kind {
	return controller.Kind{
		Entry: kinds.Kind{
			Name: "AdvancedCronJob", Plural: "advancedcronjobs", Group: "apps.kruise.io",
			Scope: kinds.Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "advancedcronjob-workers", Users: kinds.Edit,
			// Its BroadcastJobs are cached for their own kind.
			Needs: kinds.Needs{Controls: []schema.GroupVersionKind{{Group: "batch", Version: "v1", Kind: "Job"}}},
		},
		Name:      Name,
		Setup:     Setup,
		Admission: func(admit.Deps) admit.Rules { return admission.Kind() },
	}
}

// Setup makes the manager run the reconciler of AdvancedCronJobs.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	r := &Reconciler{Base: workload.New(Name, plan.Kind(), d), managed: workload.Managed(mgr.GetRESTMapper(), c)}
	return r.Setup(ctx, mgr, r, workload.Watches{})
}
