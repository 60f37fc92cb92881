// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/controllers/statefulset/admission"
	"github.com/kruise-operator/kruise-operator/controllers/statefulset/plan"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the kind StatefulSet for the operator.
func Value() controller.Kind {
	return controller.Kind{
		Entry: kinds.Kind{
			Name: "StatefulSet", Plural: "statefulsets", Group: "apps.kruise.io",
			Scope: kinds.Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1", Scale: true, ClaimTemplates: true,
			Controller: kinds.Optional, WorkersFlag: "statefulset-workers", Protected: true, Users: kinds.Edit,
			Needs: kinds.Needs{ControlsPods: true, OwnsRevisions: true},
		},
		Name:  Name,
		Setup: Setup,
		Admission: func(d admit.Deps) admit.Rules {
			return admission.Kind(optionsOf(d.Gates), admission.StorageClasses{Reader: d.Client})
		},
	}
}

// Setup makes the manager run the reconciler of StatefulSets.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	o := optionsOf(c.Features)
	o.InPlace = workload.InPlace(c)
	r := New(d, o)
	return r.Setup(ctx, mgr, r, workload.Watches{Pods: r.ownersOfPod, Revisions: true})
}

// optionsOf are the gates as far as they concern StatefulSets.
func optionsOf(gates features.Set) plan.Options {
	return plan.Options{
		StartOrdinal:      gates.Enabled(features.StatefulSetStartOrdinal),
		AutoDeletePVC:     gates.Enabled(features.StatefulSetAutoDeletePVC),
		AutoResizePVC:     gates.Enabled(features.StatefulSetAutoResizePVC),
		PodIndexLabel:     gates.Enabled(features.PodIndexLabel),
		PreDownloadImages: gates.Enabled(features.PreDownloadImageForInPlaceUpdate),
	}
}
