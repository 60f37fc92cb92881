// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value describes the Kruise object to the operator.
func Value() controller.Kind {
	return controller.Kind{
		// Kruise configures the operator itself.
		Entry: kinds.Kind{
			Name: "Kruise", Plural: "kruises", Group: "operator.kruise.io",
			Scope: kinds.Cluster, Versions: []string{"v1alpha1"}, Storage: "v1alpha1",
			Controller: kinds.Always, Users: kinds.AdminsOnly,
		},
		Policies: daemonPolicies,
		Serve: func(admit.Deps) map[string]http.Handler {
			return map[string]http.Handler{warningPath: &admission.Webhook{Handler: admission.HandlerFunc(warn)}}
		},
	}
}
