// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package ephemeraljob

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/controllers/ephemeraljob/admission"
	"github.com/kruise-operator/kruise-operator/controllers/ephemeraljob/plan"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the kind EphemeralJob for the operator.
func Value() controller.Kind {
	return controller.Kind{
		// Its pods are others': any its selector matches.
		Entry: kinds.Kind{
			Name: "EphemeralJob", Plural: "ephemeraljobs", Group: "apps.kruise.io",
			Scope: kinds.Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "ephemeraljob-workers", Users: kinds.Edit,
		},
		Name:      Name,
		Setup:     Setup,
		Admission: func(admit.Deps) admit.Rules { return admission.Kind() },
	}
}

// Setup makes the manager run the reconciler of EphemeralJobs.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, _ *config.Config) error {
	r := &Reconciler{Base: workload.New(Name, plan.Kind(), d)}
	return r.Setup(ctx, mgr, r, workload.Watches{Pods: r.Selecting(ended), PodChanged: changed})
}
