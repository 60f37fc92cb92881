// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package baton

import (
	"github.com/kruise-operator/kruise-operator/controllers/baton/admission"
	"github.com/kruise-operator/kruise-operator/controllers/baton/convert"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the operator's whole knowledge of Batons.
func Value() controller.Kind {
	return controller.Kind{
		Entry: kinds.Kind{
			Name: "Baton", Plural: "batons", Group: "apps.kruise.io", Scope: kinds.Namespaced, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "baton-workers", Users: kinds.Edit, Versions: []string{"v1alpha1", "v1beta1"},
		},
		Name: Name, Setup: Setup,
		Admission: func(admit.Deps) admit.Rules { return admission.Kind() },
		Convert:   convert.Converter,
	}
}
