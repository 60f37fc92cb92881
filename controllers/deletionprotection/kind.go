// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package deletionprotection

import (
	"net/http"

	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value describes deletion protection for the operator.
func Value() controller.Kind {
	return controller.Kind{
		Name: "deletionprotection", Policies: policies, Hooks: registered,
		Serve: func(d admit.Deps) map[string]http.Handler {
			return map[string]http.Handler{Path: &ctrladmission.Webhook{Handler: &Handler{
				Reader: d.Client, On: d.Gates.Enabled(features.ResourcesDeletionProtection),
				Definitions: d.Gates.Enabled(features.DeletionProtectionForCRDCascading),
			}}}
		},
	}
}
