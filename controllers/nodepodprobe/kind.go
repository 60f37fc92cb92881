// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package nodepodprobe

import (
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

// Value is the kind NodePodProbe for the operator.
func Value() controller.Kind {
	return controller.Kind{
		// PodProbeMarkers make it, and the daemon of the node with its name answers in it. Users with write access could
		// run anything anywhere. Its schema holds all its rules.
		Entry: kinds.Kind{
			Name: "NodePodProbe", Plural: "nodepodprobes", Group: "apps.kruise.io",
			Scope: kinds.Cluster, Versions: []string{"v1alpha1"}, Storage: "v1alpha1",
			Controller: kinds.Optional, WorkersFlag: "nodepodprobe-workers", Users: kinds.View,
			Needs: kinds.Needs{ReadsNodes: true, PodFacts: true},
		},
		Name:  Name,
		Setup: Setup,
	}
}
