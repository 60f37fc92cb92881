// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/budget"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// Warnings returns what is allowed but will not do what its author may expect. old is nil for a creation.
func Warnings(set, old *appsv1beta1.CloneSet, o Options) []string {
	var warnings []string
	if old == nil {
		warnings = rules.LongName(set.Name)
	}
	warnings = append(warnings, rules.ReservedLabels(&set.Spec.Template)...)
	warnings = append(warnings, rules.Hooks(set.Spec.Lifecycle, field.NewPath("spec", "lifecycle"))...)
	spec := &set.Spec
	if v := spec.ScaleStrategy.MaxUnavailable; v != nil {
		// 0% of anything and the number 0 are the only counts that come to no pod of very many.
		if n, err := budget.Count(*v, budget.Unlimited, budget.Up); err == nil && n == 0 {
			warnings = append(warnings, "spec.scaleStrategy.maxUnavailable: is 0, so no pod is ever created")
		}
	}
	onDelete := spec.UpdateStrategy.Type == appsv1beta1.OnDeleteCloneSetUpdateStrategyType
	rolling := spec.UpdateStrategy.RollingUpdate
	if onDelete && rolling != nil {
		warnings = append(warnings, "spec.updateStrategy.rollingUpdate: does not update pods, because updateStrategy.type is OnDelete")
	}
	if d := spec.ProgressDeadlineSeconds; onDelete && d != nil && *d != noDeadline {
		warnings = append(warnings, "spec.progressDeadlineSeconds: passes unless pods are deleted in time, because updateStrategy.type is OnDelete")
	}
	if rolling != nil && !o.PreDownloadImage {
		path := field.NewPath("spec", "updateStrategy", "rollingUpdate", "inPlaceUpdateStrategy")
		warnings = append(warnings, rules.PreDownloadIgnored(rolling.InPlaceUpdateStrategy, path)...)
	}
	warnings = append(warnings, inPlaceWarnings(set)...)
	if old != nil {
		warnings = append(warnings, rules.ClaimTemplates(spec.VolumeClaimTemplates, old.Spec.VolumeClaimTemplates, false)...)
		warnings = append(warnings, rules.Undrained(policyOf(set), policyOf(old), &old.Spec.Template)...)
	}
	return warnings
}

// inPlaceWarnings are about what needs updates in place.
func inPlaceWarnings(set *appsv1beta1.CloneSet) []string {
	var strategy *shared.InPlaceUpdateStrategy
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		strategy = r.InPlaceUpdateStrategy
	}
	return rules.OnlyInPlace(policyOf(set), strategy, set.Spec.Lifecycle, "podUpdatePolicy")
}

// policyOf is how pods are updated; empty where they are not, or by replacing them.
func policyOf(set *appsv1beta1.CloneSet) shared.PodUpdatePolicy {
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		return r.PodUpdatePolicy
	}
	return ""
}
