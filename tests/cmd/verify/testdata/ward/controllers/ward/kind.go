// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package ward

import (
	"net/http"

	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/controllers/ward/admission"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the operator's whole knowledge of Wards.
func Value() controller.Kind {
	return controller.Kind{
		Entry: kinds.Kind{
			Name: "Ward", Plural: "wards", Group: "apps.kruise.io", Scope: kinds.Namespaced, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "ward-workers", Users: kinds.Edit, Versions: []string{"v1beta1"},
			Needs: kinds.Needs{PodFacts: true},
		},
		Name: Name, Setup: Setup,
		Admission: func(admit.Deps) admit.Rules { return admission.Kind() },
		Hooks:     hooksOf,
		Serve: func(d admit.Deps) map[string]http.Handler {
			return map[string]http.Handler{path: &ctrladmission.Webhook{Handler: guard{d.Client}}}
		},
	}
}
