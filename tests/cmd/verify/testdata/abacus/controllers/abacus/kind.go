// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package abacus

import (
	"github.com/kruise-operator/kruise-operator/controllers/abacus/admission"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is all that the operator needs to know of Abaci.
func Value() controller.Kind {
	return controller.Kind{
		Entry: kinds.Kind{
			Name: "Abacus", Plural: "abaci", Group: "apps.kruise.io",
			Scope: kinds.Cluster, Versions: []string{"v1beta1"}, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "abacus-workers", Users: kinds.View,
		},
		Name: Name, Setup: Setup,
		Admission: func(admit.Deps) admit.Rules { return admission.Kind() },
	}
}
