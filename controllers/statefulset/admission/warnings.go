// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
	warnings = append(warnings, rules.Hooks(set.Spec.Lifecycle, field.NewPath("spec", "lifecycle"))...)
	ignored := func(path, gate string) { warnings = append(warnings, rules.Ignored(path, gate)) }
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
	if s := &set.Spec.UpdateStrategy; s.Type == appsv1.OnDeleteStatefulSetStrategyType && s.RollingUpdate != nil {
		warnings = append(warnings, "spec.updateStrategy.rollingUpdate: does not update pods, because updateStrategy.type is OnDelete")
	}
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil && !o.PreDownloadImage {
		path := field.NewPath("spec", "updateStrategy", "rollingUpdate", "inPlaceUpdateStrategy")
		warnings = append(warnings, rules.PreDownloadIgnored(rolling.InPlaceUpdateStrategy, path)...)
	}
	warnings = append(warnings, inPlaceWarnings(set)...)
	if old != nil {
		warnings = append(warnings, rules.ClaimTemplates(set.Spec.VolumeClaimTemplates, old.Spec.VolumeClaimTemplates, resizes(set, o))...)
		warnings = append(warnings, rules.Undrained(policyOf(set), policyOf(old), &old.Spec.Template)...)
	}
	return warnings
}

// inPlaceWarnings are about what needs updates in place.
func inPlaceWarnings(set *appsv1beta1.StatefulSet) []string {
	var strategy *shared.InPlaceUpdateStrategy
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		strategy = r.InPlaceUpdateStrategy
	}
	return rules.OnlyInPlace(policyOf(set), strategy, set.Spec.Lifecycle, "podUpdatePolicy")
}

// policyOf is how pods are updated; empty where they are not, or by replacing them.
func policyOf(set *appsv1beta1.StatefulSet) shared.PodUpdatePolicy {
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		return r.PodUpdatePolicy
	}
	return ""
}
