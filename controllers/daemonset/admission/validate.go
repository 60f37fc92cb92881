// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/budget"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

const (
	// aCount is the rule for fields of type int-or-string.
	aCount = `must be a whole number of at least 0, or a percentage such as "30%"`
	// aShare is the rule for parts of all nodes.
	aShare = aCount + `, of at most 100%`
	// eitherOr: an update has one kind of room.
	eitherOr = "must be 0 while maxUnavailable is not"
)

// Validate returns the faults of a DaemonSet after Default.
func Validate(set *appsv1beta1.DaemonSet) field.ErrorList {
	spec, path := &set.Spec, field.NewPath("spec")

	errs := rules.Metadata(&set.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, rules.Workload("DaemonSet", nil, spec.Selector, &spec.Template, path)...)
	errs = append(errs, validateStrategy(&spec.UpdateStrategy, path.Child("updateStrategy"))...)
	errs = append(errs, rules.NotNegative(&spec.MinReadySeconds, path.Child("minReadySeconds"))...)
	errs = append(errs, rules.NotNegative(spec.RevisionHistoryLimit, path.Child("revisionHistoryLimit"))...)
	errs = append(errs, validateBurst(spec.BurstReplicas, path.Child("burstReplicas"))...)
	if spec.Lifecycle != nil && spec.Lifecycle.InPlaceUpdate != nil {
		errs = append(errs, field.Forbidden(path.Child("lifecycle", "inPlaceUpdate"), "pods of a DaemonSet have the hook preDelete only"))
	}
	return errs
}

func validateBurst(v *intstr.IntOrString, path *field.Path) field.ErrorList {
	if v == nil {
		return nil
	}
	if _, err := budget.Count(*v, 0, budget.Down); err != nil {
		return field.ErrorList{field.Invalid(path, rules.Plain(*v), aCount)}
	}
	if isZero(v) {
		return field.ErrorList{field.Invalid(path, rules.Plain(*v), "must be more than 0, or no pod could ever be created")}
	}
	return nil
}

func validateStrategy(strategy *appsv1beta1.DaemonSetUpdateStrategy, path *field.Path) field.ErrorList {
	errs := rules.OneOf(path.Child("type"), strategy.Type, "",
		appsv1beta1.RollingUpdateDaemonSetStrategyType, appsv1beta1.OnDeleteDaemonSetStrategyType)
	rolling := strategy.RollingUpdate
	path = path.Child("rollingUpdate")
	if rolling == nil {
		if strategy.Type == appsv1beta1.RollingUpdateDaemonSetStrategyType {
			errs = append(errs, field.Required(path, "how pods are updated"))
		}
		return errs
	}
	errs = append(errs, rules.OneOf(path.Child("rollingUpdateType"), rolling.Type, "",
		appsv1beta1.StandardRollingUpdateType, appsv1beta1.InplaceRollingUpdateType)...)
	errs = append(errs, validateShare(rolling.Partition, path.Child("partition"))...)
	if rolling.Selector != nil {
		errs = append(errs, rules.LabelSelector(rolling.Selector, path.Child("selector"))...)
	}
	limits := validateShare(rolling.MaxUnavailable, path.Child("maxUnavailable"))
	limits = append(limits, validateShare(rolling.MaxSurge, path.Child("maxSurge"))...)
	if len(limits) > 0 {
		return append(errs, limits...)
	}
	return append(errs, validateLimits(strategy, path)...)
}

// validateLimits requires that an update can begin, and in one way only.
func validateLimits(strategy *appsv1beta1.DaemonSetUpdateStrategy, path *field.Path) field.ErrorList {
	rolling := strategy.RollingUpdate
	unavailable, surge := !isZero(rolling.MaxUnavailable), !isZero(rolling.MaxSurge)
	switch {
	case unavailable && surge:
		return field.ErrorList{field.Invalid(path.Child("maxSurge"), rules.Plain(*rolling.MaxSurge), eitherOr)}
	case surge && rolling.Type == appsv1beta1.InplaceRollingUpdateType:
		return field.ErrorList{field.Invalid(path.Child("maxSurge"), rules.Plain(*rolling.MaxSurge),
			"must be 0 when rollingUpdateType is InPlaceIfPossible: a pod that is edited has no second one beside it")}
	case !unavailable && !surge && strategy.Type == appsv1beta1.RollingUpdateDaemonSetStrategyType:
		return field.ErrorList{field.Required(path.Child("maxUnavailable"), "must not be 0 while maxSurge is 0, or no pod could be updated")}
	}
	return nil
}

// validateShare requires a count of at most all nodes.
func validateShare(v *intstr.IntOrString, path *field.Path) field.ErrorList {
	if v == nil {
		return nil
	}
	const all = 1_000_000
	n, err := budget.Count(*v, all, budget.Up)
	if err != nil || v.Type == intstr.String && n > all {
		return field.ErrorList{field.Invalid(path, rules.Plain(*v), aShare)}
	}
	return nil
}

// inV1alpha1 is a field's name for a client of v1alpha1.
func inV1alpha1(path string) string {
	if strings.HasPrefix(path, "spec.scaleStrategy") {
		return field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationProgressiveCreatePod).String()
	}
	return path
}

// textInV1alpha1 explains to a client of v1alpha1, perhaps without maxSurge.
func textInV1alpha1(_, text string) string {
	if text == eitherOr {
		return text + "; the type Surging means 1 where it is left out"
	}
	return text
}
