// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts PersistentPodStates between their versions.
package convert

import (
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

// Converter converts PersistentPodStates: the lists of keys have another name in v1alpha1.
func Converter() conversion.Converter {
	return conversion.Converter{
		GroupKind: v1beta1.GroupVersion().WithKind("PersistentPodState").GroupKind(),
		Renamed: []conversion.Renamed{
			{Path: "spec.requiredPersistentTopology", Name: "keys", InV1alpha1: "nodeTopologyKeys"},
			{Path: "spec.preferredPersistentTopology.*.preference", Name: "keys", InV1alpha1: "nodeTopologyKeys"},
		},
	}
}
