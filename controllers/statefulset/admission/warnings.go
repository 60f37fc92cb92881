// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/statefulset/plan"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// Warnings are about permitted parts with a surprising effect. old is nil for a creation.
func Warnings(set, old *appsv1beta1.StatefulSet, o plan.Options) []string {
	common := commonOf(set)
	warnings := common.Pods(old == nil)
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
	if t := set.Spec.VolumeClaimUpdateStrategy.Type; t == appsv1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType && common.OnDelete {
		warnings = append(warnings, "spec.volumeClaimUpdateStrategy.type: no claim grows, because updateStrategy.type is OnDelete")
	}
	for _, f := range []struct{ name, value, from string }{
		{"hostname", set.Spec.Template.Spec.Hostname, "the name of the pod"}, {"subdomain", set.Spec.Template.Spec.Subdomain, "spec.serviceName"},
	} {
		if f.value != "" && f.value != set.Spec.ServiceName {
			warnings = append(warnings, fmt.Sprintf("spec.template.spec.%s: has no effect: pods get %s", f.name, f.from))
		}
	}
	return append(warnings, common.Updates(commonOf(old), o.PreDownloadImages, resizes(set, o))...)
}

// commonOf is the set's common part with other kinds; nil without a set.
func commonOf(set *appsv1beta1.StatefulSet) *rules.Set {
	if set == nil {
		return nil
	}
	spec := &set.Spec
	common := &rules.Set{
		Name: set.Name, Template: &spec.Template, Claims: spec.VolumeClaimTemplates, Hooks: spec.Lifecycle,
		OnDelete: spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType,
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil {
		common.Rolling, common.Policy, common.InPlace = true, rolling.PodUpdatePolicy, rolling.InPlaceUpdateStrategy
	}
	return common
}
