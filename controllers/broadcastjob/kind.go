// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package broadcastjob

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/controllers/broadcastjob/admission"
	"github.com/kruise-operator/kruise-operator/controllers/broadcastjob/plan"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the kind BroadcastJob for the operator.
func Value() controller.Kind {
	return controller.Kind{
		Entry: kinds.Kind{
			Name: "BroadcastJob", Plural: "broadcastjobs", Group: "apps.kruise.io",
			Scope: kinds.Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "broadcastjob-workers", Users: kinds.Edit,
			Needs: kinds.Needs{ControlsPods: true, ReadsNodes: true},
		},
		Name:      Name,
		Setup:     Setup,
		Admission: func(admit.Deps) admit.Rules { return admission.Kind() },
	}
}

// Setup makes the manager run the reconciler of BroadcastJobs.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	r := &Reconciler{Base: workload.New(Name, plan.Kind(), d), bind: !c.AssignBroadcastJobPodsByScheduler}
	return r.Setup(ctx, mgr, r, workload.Watches{Pods: r.Controller, NodeChanges: r.byNode()})
}
