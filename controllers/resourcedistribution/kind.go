// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package resourcedistribution

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/controllers/resourcedistribution/admission"
	"github.com/kruise-operator/kruise-operator/controllers/resourcedistribution/convert"
	"github.com/kruise-operator/kruise-operator/controllers/resourcedistribution/plan"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the kind ResourceDistribution for the operator.
func Value() controller.Kind {
	return controller.Kind{
		// Whoever may write one writes into every namespace, so no role of users has it.
		Entry: kinds.Kind{
			Name: "ResourceDistribution", Plural: "resourcedistributions", Group: "apps.kruise.io",
			Scope: kinds.Cluster, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "resourcedistribution-workers", Users: kinds.AdminsOnly,
			Needs: kinds.Needs{Distributed: []schema.GroupVersionKind{plan.KindConfigMap()}},
		},
		Name:      Name,
		Setup:     Setup,
		Admission: func(admit.Deps) admit.Rules { return admission.Kind() },
		Convert:   convert.Converter,
	}
}

// Setup makes the manager run the reconciler of ResourceDistributions.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, _ *config.Config) error {
	r := New(d)
	d.Metrics.Copies.Add(r.copies)
	return r.Setup(ctx, mgr, r, workload.Watches{})
}
