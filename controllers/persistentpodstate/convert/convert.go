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
	renaming := func(from, to string) func(*conversion.Object) error {
		rename := func(m conversion.Members) { m.Rename(from, to) }
		return func(o *conversion.Object) error {
			if err := conversion.Each(o.Spec, rename, "requiredPersistentTopology"); err != nil {
				return err
			}
			return conversion.Each(o.Spec, rename, "preferredPersistentTopology", "*", "preference")
		}
	}
	return conversion.Converter{
		GroupKind:  v1beta1.GroupVersion().WithKind("PersistentPodState").GroupKind(),
		ToV1alpha1: renaming("keys", "nodeTopologyKeys"), FromV1alpha1: renaming("nodeTopologyKeys", "keys"),
	}
}
