// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"slices"
	"strconv"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/engine/subset"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// recovery bounds the seconds of all subsets but the last: the first one given up is open again after 300.
const recovery = 295

// Validate returns the faults visible in the object alone.
func Validate(ws *appsv1beta1.WorkloadSpread) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateTarget(ws.Spec.TargetReference, path.Child("targetRef"))
	if filter := ws.Spec.TargetFilter; filter != nil && filter.Selector != nil {
		errs = append(errs, metav1validation.ValidateLabelSelector(filter.Selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("targetFilter", "selector"))...)
	}
	if policy, found := ws.Annotations[shared.AnnotationInjectionFailurePolicy]; found {
		errs = append(errs, rules.OneOf(field.NewPath("metadata", "annotations").Key(shared.AnnotationInjectionFailurePolicy), policy, "Ignore", "Fail")...)
	}
	errs = append(errs, validateSubsets(ws, path.Child("subsets"))...)
	return append(errs, validateStrategy(&ws.Spec, path.Child("scheduleStrategy"))...)
}

func validateTarget(ref *appsv1beta1.TargetReference, path *field.Path) field.ErrorList {
	if ref == nil {
		return field.ErrorList{field.Required(path, "the workload whose pods are spread")}
	}
	if ref.APIVersion == "" || ref.Kind == "" || ref.Name == "" {
		return field.ErrorList{field.Invalid(path, *ref, "apiVersion, kind and name must not be empty")}
	}
	if faults := validation.IsDNS1123Subdomain(ref.Name); len(faults) > 0 {
		return field.ErrorList{field.Invalid(path.Child("name"), ref.Name, faults[0])}
	}
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return field.ErrorList{field.Invalid(path.Child("apiVersion"), ref.APIVersion, err.Error())}
	}
	if groups := spread.Groups(ref.Kind); len(groups) > 0 && !slices.Contains(groups, version.Group) {
		return field.ErrorList{field.Invalid(path.Child("apiVersion"), ref.APIVersion, fmt.Sprintf("the group of a %s must be one of %v", ref.Kind, groups))}
	}
	return nil
}

func validateSubsets(ws *appsv1beta1.WorkloadSpread, path *field.Path) field.ErrorList {
	subsets := ws.Spec.Subsets
	if len(subsets) == 0 {
		return field.ErrorList{field.Required(path, "at least one subset")}
	}
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range subsets {
		sub, at := &subsets[i], path.Index(i)
		switch {
		case sub.Name == "":
			errs = append(errs, field.Invalid(at.Child("name"), sub.Name, "must not be empty"))
		case names[sub.Name]:
			errs = append(errs, field.Invalid(at.Child("name"), sub.Name, "is the name of an earlier subset"))
		}
		names[sub.Name] = true
		errs = append(errs, validatePlace(sub, at)...)
		if raw := sub.Patch.Raw; len(raw) > 0 && string(raw) != "null" {
			var patch map[string]any
			if err := utiljson.Unmarshal(raw, &patch); err != nil {
				errs = append(errs, field.Invalid(at.Child("patch"), string(raw), "must be an object"))
			}
		}
	}
	return append(errs, validateLimits(ws, path)...)
}

func validatePlace(sub *appsv1beta1.WorkloadSpreadSubset, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if sub.RequiredNodeSelector != nil {
		errs = append(errs, rules.NodeSelectorTerm(sub.RequiredNodeSelector, at.Child("requiredNodeSelector"))...)
	}
	for i := range sub.PreferredNodeSelector {
		term, place := &sub.PreferredNodeSelector[i], at.Child("preferredNodeSelector").Index(i)
		if term.Weight < 1 || term.Weight > 100 {
			errs = append(errs, field.Invalid(place.Child("weight"), term.Weight, "must be from 1 to 100"))
		}
		errs = append(errs, rules.NodeSelectorTerm(&term.Preference, place.Child("preference"))...)
	}
	for i := range sub.Tolerations {
		errs = append(errs, rules.Toleration(&sub.Tolerations[i], at.Child("tolerations").Index(i))...)
	}
	return errs
}

// validateLimits checks maxReplicas over all subsets.
func validateLimits(ws *appsv1beta1.WorkloadSpread, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var first *intstr.IntOrString
	sum := 0
	ordinals := ws.Spec.TargetReference != nil && ws.Spec.TargetReference.Kind == "StatefulSet"
	for i := range ws.Spec.Subsets {
		limit, at := ws.Spec.Subsets[i].MaxReplicas, path.Index(i).Child("maxReplicas")
		if limit == nil {
			continue
		}
		if first == nil {
			first = limit
		}
		size, err := subset.Parse(*limit)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(at, limit.String(), err.Error()))
		case limit.Type != first.Type:
			errs = append(errs, field.Invalid(at, limit.String(), "all subsets must have numbers, or all percentages"))
		case limit.Type == intstr.String && ordinals:
			errs = append(errs, field.Invalid(at, limit.String(), "must be a number for a StatefulSet"))
		case limit.Type == intstr.String:
			sum += size.Of(100)
		}
	}
	last := len(ws.Spec.Subsets) - 1
	limit, at := ws.Spec.Subsets[last].MaxReplicas, path.Index(last).Child("maxReplicas")
	switch {
	case len(errs) > 0 || first == nil || first.Type == intstr.Int:
	case sum > 100:
		errs = append(errs, field.Invalid(at, strconv.Itoa(sum)+"%", "all percentages together must be at most 100%"))
	case sum < 100 && limit != nil:
		errs = append(errs, field.Invalid(at, strconv.Itoa(sum)+"%", "all percentages together must be 100% when the last subset has one"))
	}
	return errs
}

func validateStrategy(spec *appsv1beta1.WorkloadSpreadSpec, path *field.Path) field.ErrorList {
	strategy := spec.ScheduleStrategy
	var errs field.ErrorList
	if strategy.Type != "" {
		errs = rules.OneOf(path.Child("type"), strategy.Type, appsv1beta1.AdaptiveWorkloadSpreadScheduleStrategyType, appsv1beta1.FixedWorkloadSpreadScheduleStrategyType)
	}
	if strategy.Adaptive == nil || len(errs) > 0 {
		return errs
	}
	if strategy.Type != appsv1beta1.AdaptiveWorkloadSpreadScheduleStrategyType {
		return append(errs, field.Invalid(path.Child("type"), strategy.Type, "must be Adaptive when adaptive is set"))
	}
	n := len(spec.Subsets)
	if n > 1 && spec.Subsets[n-1].MaxReplicas != nil {
		errs = append(errs, field.Invalid(path.Child("adaptive"), "", "the last subset must have no maxReplicas: it takes the pods of the others"))
	}
	seconds, at := strategy.Adaptive.RescheduleCriticalSeconds, path.Child("adaptive", "rescheduleCriticalSeconds")
	if seconds != nil && n > 1 && int(*seconds) > recovery/(n-1) {
		errs = append(errs, field.Invalid(at, *seconds, fmt.Sprintf("must be at most %d with %d subsets", recovery/(n-1), n)))
	}
	return append(errs, rules.NotNegative(seconds, at)...)
}

// ValidateUpdate keeps the target.
func ValidateUpdate(ws, old *appsv1beta1.WorkloadSpread) field.ErrorList {
	now, before := ws.Spec.TargetReference, old.Spec.TargetReference
	if before == nil || now == nil || sameTarget(now, before) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "targetRef"), *now, "cannot be changed: group, kind and name stay")}
}

func sameTarget(a, b *appsv1beta1.TargetReference) bool {
	return groupKind(a) == groupKind(b) && a.Name == b.Name
}

func groupKind(ref *appsv1beta1.TargetReference) schema.GroupKind {
	return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
}
