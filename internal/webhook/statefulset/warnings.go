// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/workload"
)

// Warnings returns what is allowed but will not do what its author may expect. old is nil for a creation.
func Warnings(set, old *appsv1beta1.StatefulSet, o Options) []string {
	var warnings []string
	if old == nil && len(set.Name) > workload.LongestName {
		warnings = append(warnings, workload.LongName(set.Name))
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
