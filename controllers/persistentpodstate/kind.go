// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package persistentpodstate

import (
	"net/http"

	"github.com/kruise-operator/kruise-operator/controllers/persistentpodstate/admission"
	"github.com/kruise-operator/kruise-operator/controllers/persistentpodstate/convert"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the kind PersistentPodState for the operator.
func Value() controller.Kind {
	return controller.Kind{
		// Its pods are those of others, or of our StatefulSets.
		Entry: kinds.Kind{
			Name: "PersistentPodState", Plural: "persistentpodstates", Group: "apps.kruise.io",
			Scope: kinds.Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "persistentpodstate-workers", Users: kinds.Edit,
			Needs: kinds.Needs{ReadsNodes: true},
		},
		Name:  Name,
		Setup: Setup,
		Admission: func(d admit.Deps) admit.Rules {
			return admission.Kind(admission.Others{Reader: d.Client, Namespace: d.Namespace})
		},
		Convert: convert.Converter,
		Serve: func(d admit.Deps) map[string]http.Handler {
			return serve(d.Client)
		},
	}
}
