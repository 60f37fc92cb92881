// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

// Value is all that the operator needs to know of the Kruise object.
func Value() controller.Kind {
	return controller.Kind{
		// Kruise configures the operator itself.
		Entry: kinds.Kind{
			Name: "Kruise", Plural: "kruises", Group: "operator.kruise.io",
			Scope: kinds.Cluster, Versions: []string{"v1alpha1"}, Storage: "v1alpha1",
			Controller: kinds.Always, Users: kinds.AdminsOnly,
		},
	}
}
