// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/controllers/cloneset/admission"
	"github.com/kruise-operator/kruise-operator/controllers/cloneset/convert"
	"github.com/kruise-operator/kruise-operator/controllers/cloneset/plan"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the kind CloneSet for the operator.
func Value() controller.Kind {
	return controller.Kind{
		Entry: kinds.Kind{
			Name: "CloneSet", Plural: "clonesets", Group: "apps.kruise.io",
			Scope: kinds.Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1", Scale: true, ClaimTemplates: true,
			Controller: kinds.Optional, WorkersFlag: "cloneset-workers", Protected: true, Users: kinds.Edit,
			Needs: kinds.Needs{ControlsPods: true, OwnsRevisions: true},
		},
		Name:  Name,
		Setup: Setup,
		Admission: func(d admit.Deps) admit.Rules {
			return admission.Kind(d.Gates.Enabled(features.PreDownloadImageForInPlaceUpdate), admission.Pods{Reader: d.Client})
		},
		Convert: convert.Converter,
	}
}

// Setup makes the manager run the reconciler of CloneSets.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	r := New(d, optionsOf(c))
	return r.Setup(ctx, mgr, r, workload.Watches{Pods: r.Controller, Revisions: true})
}

// optionsOf are the gates and flags as far as they concern CloneSets.
func optionsOf(c *config.Config) plan.Options {
	gates := c.Features
	options := plan.Options{
		PartitionRollback:       gates.Enabled(features.CloneSetPartitionRollback),
		PreparingUpdateAsUpdate: gates.Enabled(features.PreparingUpdateAsUpdate),
		ExcludePreparingDelete:  c.CloneSetExcludePreparingDelete,
		PreDownloadImages:       gates.Enabled(features.PreDownloadImageForInPlaceUpdate),
		InPlace:                 workload.InPlace(c),
	}
	options.InPlace.ShortHash = gates.Enabled(features.CloneSetShortHash)
	options.InPlace.ClaimTemplates = gates.Enabled(features.RecreatePodWhenChangeVCTInCloneSet)
	return options
}
