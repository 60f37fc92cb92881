// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// longestName is the longest name whose pods can be created: they carry the label controller-revision-hash with the value
// <name>-<hash>, a hash has at most 10 characters, and a label value at most 63.
const longestName = 52

// Warnings returns what is allowed but will not do what its author may expect. old is nil for a creation.
func Warnings(set, old *appsv1beta1.StatefulSet, o Options) []string {
	var warnings []string
	if old == nil && len(set.Name) > longestName {
		warnings = append(warnings, fmt.Sprintf(
			"metadata.name: has %d characters; with more than %d the label controller-revision-hash can become too long for pods to be created",
			len(set.Name), longestName))
	}
	ignored := func(field, gate string) {
		warnings = append(warnings, fmt.Sprintf("%s: ignored, because the feature gate %s is off", field, gate))
	}
	if s := set.Spec.Ordinals; s != nil && s.Start != 0 && !o.StartOrdinal {
		ignored("spec.ordinals.start", "StatefulSetStartOrdinal")
	}
	if p := set.Spec.PersistentVolumeClaimRetentionPolicy; p != nil && !o.AutoDeletePVC {
		const remove = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		if p.WhenDeleted == remove || p.WhenScaled == remove {
			ignored("spec.persistentVolumeClaimRetentionPolicy", "StatefulSetAutoDeletePVC")
		}
	}
	if t := set.Spec.VolumeClaimUpdateStrategy.Type; t == appsv1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType && !o.AutoResizePVC {
		ignored("spec.volumeClaimUpdateStrategy.type", "StatefulSetAutoResizePVCGate")
	}
	return warnings
}
