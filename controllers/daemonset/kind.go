// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/controllers/daemonset/admission"
	"github.com/kruise-operator/kruise-operator/controllers/daemonset/convert"
	"github.com/kruise-operator/kruise-operator/controllers/daemonset/plan"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the kind DaemonSet for the operator.
func Value() controller.Kind {
	return controller.Kind{
		Entry: kinds.Kind{
			Name: "DaemonSet", Plural: "daemonsets", Group: "apps.kruise.io",
			Scope: kinds.Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "daemonset-workers", Protected: true, Users: kinds.Edit,
			Needs: kinds.Needs{ControlsPods: true, OwnsRevisions: true, ReadsNodes: true},
		},
		Name:      Name,
		Setup:     Setup,
		Admission: func(admit.Deps) admit.Rules { return admission.Kind() },
		Convert:   convert.Converter,
	}
}

// Setup makes the manager run the reconciler of DaemonSets.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	r := &Reconciler{Base: workload.New(Name, plan.Kind(), d), Options: optionsOf(c)}
	judges := workload.NewParsed(judge)
	return r.Setup(ctx, mgr, r, workload.Watches{Pods: r.ownersOfPod(), Revisions: true, NodeChanges: r.ByNode(judges.Of)})
}

// optionsOf are the gates and flags as far as they concern DaemonSets.
func optionsOf(c *config.Config) plan.Options {
	return plan.Options{
		AssignNodes:          !c.AssignPodsByScheduler,
		PruneIneligibleNodes: c.Features.Enabled(features.DaemonSetPruneIneligibleNodes),
		PreDownloadImages:    c.Features.Enabled(features.PreDownloadImageForDaemonSetUpdate),
		InPlace:              workload.InPlace(c),
	}
}
