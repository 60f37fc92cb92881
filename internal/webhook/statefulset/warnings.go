// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// Warnings returns what is allowed but will not do what its author may expect. old is nil for a creation.
func Warnings(set, old *appsv1beta1.StatefulSet, o Options) []string {
	var warnings []string
	if old == nil {
		warnings = rules.LongName(set.Name)
	}
	warnings = append(warnings, rules.ReservedLabels(&set.Spec.Template)...)
	ignored := func(field, gate string) { warnings = append(warnings, rules.Ignored(field, gate)) }
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
	return append(warnings, undrained(set, old)...)
}

// undrained warns of an update that switches updates in place on for pods that cannot be taken out of service for them. Only pods that
// this operator has not created lack the gate: it adds it to all of its own.
func undrained(set, old *appsv1beta1.StatefulSet) []string {
	if old == nil || !updatesInPlace(set) || updatesInPlace(old) || hasGate(&old.Spec.Template, shared.GateInPlaceUpdateReady) {
		return nil
	}
	return []string{fmt.Sprintf("spec.updateStrategy.rollingUpdate.podUpdatePolicy: pods that exist without the readiness gate %s are not taken out of service "+
		"while they are updated in place; new pods have it", shared.GateInPlaceUpdateReady)}
}

func updatesInPlace(set *appsv1beta1.StatefulSet) bool {
	r := set.Spec.UpdateStrategy.RollingUpdate
	return r != nil && (r.PodUpdatePolicy == shared.InPlaceIfPossible || r.PodUpdatePolicy == shared.InPlaceOnly)
}

func hasGate(template *corev1.PodTemplateSpec, gate corev1.PodConditionType) bool {
	return slices.ContainsFunc(template.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == gate })
}
