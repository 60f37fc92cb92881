// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NodeSelectorTerm requires a term for a pod's node affinity.
func NodeSelectorTerm(term *corev1.NodeSelectorTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range term.MatchFields {
		at, r := path.Child("matchFields").Index(i), &term.MatchFields[i]
		if r.Key != "metadata.name" {
			errs = append(errs, field.Invalid(at.Child("key"), r.Key, "must be metadata.name"))
		}
		errs = append(errs, OneOf(at.Child("operator"), r.Operator, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn)...)
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(at.Child("values"), "exactly one value"))
		}
	}
	for i := range term.MatchExpressions {
		errs = append(errs, NodeRequirement(&term.MatchExpressions[i], path.Child("matchExpressions").Index(i))...)
	}
	return errs
}

// NodeRequirement requires one of its expressions.
func NodeRequirement(r *corev1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	errs := validateKey(r.Key, path.Child("key"))
	values := path.Child("values")
	for i, value := range r.Values {
		errs = append(errs, Faults(values.Index(i), value, validation.IsValidLabelValue(value))...)
	}
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(values, "In and NotIn need at least one value"))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			errs = append(errs, field.Forbidden(values, "Exists and DoesNotExist have no values"))
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(values, "Gt and Lt need exactly one value"))
		} else if _, err := strconv.ParseInt(r.Values[0], 10, 64); err != nil {
			errs = append(errs, field.Invalid(values.Index(0), r.Values[0], "must be a whole number for Gt and Lt"))
		}
	default:
		errs = append(errs, OneOf(path.Child("operator"), r.Operator, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn,
			corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt)...)
	}
	return errs
}

// Toleration requires a pod's toleration. Only a dry run tells about comparisons.
func Toleration(t *corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, validateKey(t.Key, path.Child("key"))...)
	} else if t.Operator != corev1.TolerationOpExists {
		errs = append(errs, field.Invalid(path.Child("operator"), t.Operator, "must be Exists when the key is empty: it matches every taint"))
	}
	value := path.Child("value")
	switch t.Operator {
	case "", corev1.TolerationOpEqual:
		errs = append(errs, Faults(value, t.Value, validation.IsValidLabelValue(t.Value))...)
	case corev1.TolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(value, t.Value, "must be empty with the operator Exists"))
		}
	case corev1.TolerationOpLt, corev1.TolerationOpGt:
		if n, err := strconv.ParseInt(t.Value, 10, 64); err != nil || strconv.FormatInt(n, 10) != t.Value {
			errs = append(errs, field.Invalid(value, t.Value, "must be a whole number for Gt and Lt, without leading zeros"))
		}
	default:
		errs = append(errs, OneOf(path.Child("operator"), t.Operator,
			corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt)...)
	}
	if t.Effect != "" {
		errs = append(errs, OneOf(path.Child("effect"), t.Effect,
			corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		errs = append(errs, field.Invalid(path.Child("effect"), t.Effect, "must be NoExecute with tolerationSeconds"))
	}
	return errs
}

// validateKey requires the key of a label or taint.
func validateKey(key string, path *field.Path) field.ErrorList {
	if key == "" {
		return field.ErrorList{field.Required(path, "the key of a label")}
	}
	return Faults(path, key, validation.IsQualifiedName(key))
}
