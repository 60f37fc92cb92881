// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/budget"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// Warnings are about permitted parts with a surprising effect. old is nil for a creation.
func Warnings(set, old *appsv1beta1.CloneSet, preDownload bool) []string {
	common := commonOf(set)
	warnings := common.Pods(old == nil)
	if v := set.Spec.ScaleStrategy.MaxUnavailable; v != nil {
		// Only 0% and the number 0 come to no pod of very many.
		if n, err := budget.Count(*v, budget.Unlimited, budget.Up); err == nil && n == 0 {
			warnings = append(warnings, "spec.scaleStrategy.maxUnavailable: is 0, so no pod is ever created")
		}
	}
	if d := set.Spec.ProgressDeadlineSeconds; common.OnDelete && d != nil && *d != noDeadline {
		warnings = append(warnings, "spec.progressDeadlineSeconds: passes unless pods are deleted in time, because updateStrategy.type is OnDelete")
	}
	return append(warnings, common.Updates(commonOf(old), preDownload, false)...)
}

// commonOf is the set's common part with other kinds; nil without a set.
func commonOf(set *appsv1beta1.CloneSet) *rules.Set {
	if set == nil {
		return nil
	}
	spec := &set.Spec
	common := &rules.Set{
		Name: set.Name, Template: &spec.Template, Claims: spec.VolumeClaimTemplates, Hooks: spec.Lifecycle,
		OnDelete: spec.UpdateStrategy.Type == appsv1beta1.OnDeleteCloneSetUpdateStrategyType,
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil {
		common.Rolling, common.Policy, common.InPlace = true, rolling.PodUpdatePolicy, rolling.InPlaceUpdateStrategy
	}
	return common
}
