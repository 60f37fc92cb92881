// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package trafficrouting

import (
	"github.com/kruise-operator/kruise-operator/controllers/trafficrouting/admission"
	"github.com/kruise-operator/kruise-operator/controllers/trafficrouting/plan"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/routes"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the kind TrafficRouting for the operator.
func Value() controller.Kind {
	return controller.Kind{
		Entry: kinds.Kind{
			Name: plan.Kind().Kind, Plural: "trafficroutings", Group: plan.Kind().Group,
			Scope: kinds.Namespaced, Versions: []string{"v1alpha1"}, Storage: "v1alpha1",
			Controller: kinds.Optional, WorkersFlag: "trafficrouting-workers", Users: kinds.Edit,
		},
		Name:  Name,
		Setup: Setup,
		Admission: func(d admit.Deps) admit.Rules {
			return admission.Kind(routes.Judge{Reader: d.Client, Namespace: d.Namespace})
		},
	}
}
