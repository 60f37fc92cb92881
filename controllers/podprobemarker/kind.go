// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podprobemarker

import (
	"github.com/kruise-operator/kruise-operator/controllers/podprobemarker/admission"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the kind PodProbeMarker for the operator.
func Value() controller.Kind {
	return controller.Kind{
		// Its pods are those of others. It never ends, so the node daemon stays as long as it does.
		Entry: kinds.Kind{
			Name: "PodProbeMarker", Plural: "podprobemarkers", Group: "apps.kruise.io",
			Scope: kinds.Namespaced, Versions: []string{"v1alpha1"}, Storage: "v1alpha1",
			Controller: kinds.Optional, WorkersFlag: "podprobemarker-workers", NodeDaemon: true, Users: kinds.Edit,
			Needs: kinds.Needs{ReadsNodes: true, PodFacts: true},
		},
		Name:  Name,
		On:    func(c *config.Config) bool { return c.Features.Enabled(features.PodProbeMarker) },
		Setup: Setup,
		Admission: func(d admit.Deps) admit.Rules {
			return admission.Kind(d.Gates.Enabled(features.PodProbeMarker), admission.Workloads{Reader: d.Client})
		},
	}
}
