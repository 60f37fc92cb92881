// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"github.com/kruise-operator/kruise-operator/controllers/nodeimage/admission"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the kind NodeImage for the operator.
func Value() controller.Kind {
	return controller.Kind{
		// Jobs write it, and the daemon of the node with its name. Users with write access could pull anything anywhere.
		// Only hand-written tags need the daemon, so its controller says when.
		Entry: kinds.Kind{
			Name: "NodeImage", Plural: "nodeimages", Group: "apps.kruise.io",
			Scope: kinds.Cluster, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "nodeimage-workers", Users: kinds.View,
			Needs: kinds.Needs{ReadsNodes: true},
		},
		Name:      Name,
		Setup:     Setup,
		Admission: func(admit.Deps) admit.Rules { return admission.Kind() },
	}
}
