// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package flock

import (
	"github.com/kruise-operator/kruise-operator/controllers/flock/admission"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the operator's whole knowledge of Flocks.
func Value() controller.Kind {
	return controller.Kind{
		Entry: kinds.Kind{
			Name: "Flock", Plural: "flocks", Group: "apps.kruise.io", Scope: kinds.Namespaced, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "flock-workers", Users: kinds.Edit, Versions: []string{"v1beta1"},
			Needs: kinds.Needs{ControlsPods: true},
		},
		Name: Name, Setup: Setup,
		Admission: func(admit.Deps) admit.Rules { return admission.Kind() },
	}
}
