// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podtemplate"
)

// Introduced takes out of errs what is among known, in the same words. What is wrong with the stored object already is not held against
// an update: it may come from a time without admission, and refusing every later change would not mend it.
func Introduced(errs, known field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		return slices.ContainsFunc(known, func(k *field.Error) bool { return k.Error() == e.Error() })
	})
}

// Selector requires a selector that matches the labels of the template, and not every pod. path is that of the spec.
func Selector(labelSelector *metav1.LabelSelector, template *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	if labelSelector == nil {
		return field.ErrorList{field.Required(path.Child("selector"), "a selector that matches the labels of the template")}
	}
	path, templateLabels := path.Child("selector"), path.Child("template", "metadata", "labels")
	if len(labelSelector.MatchLabels)+len(labelSelector.MatchExpressions) == 0 {
		return field.ErrorList{field.Invalid(path, "{}", "must not be empty: it would match every pod")}
	}
	errs := metav1validation.ValidateLabelSelector(labelSelector, metav1validation.LabelSelectorValidationOptions{}, path)
	if len(errs) > 0 {
		return errs
	}
	selector, err := metav1.LabelSelectorAsSelector(labelSelector)
	if err != nil {
		return field.ErrorList{field.Invalid(path, metav1.FormatLabelSelector(labelSelector), err.Error())}
	}
	if !selector.Matches(labels.Set(template.Labels)) {
		return field.ErrorList{field.Invalid(templateLabels, template.Labels,
			fmt.Sprintf("must match spec.selector, which is %s", selector))}
	}
	return nil
}

// Template holds the few rules that stop a set for good. Everything else about the template is for the API server to say. kind is
// the kind of the set, for the messages.
func Template(kind string, template *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(template.Labels, path.Child("metadata", "labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(template.Annotations, path.Child("metadata", "annotations"))...)
	if p := template.Spec.RestartPolicy; p != "" && p != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("spec", "restartPolicy"), p, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("spec", "activeDeadlineSeconds"), fmt.Sprintf("the pods of a %s have no deadline", kind)))
	}
	return errs
}

// InPlaceOnly refuses a template that pods could not reach by editing the images of their containers. What the API
// server fills in on its own is no difference.
func InPlaceOnly(template, old *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	is, was := podtemplate.Defaulted(template), podtemplate.Defaulted(old)
	if len(is.Spec.Containers) == len(was.Spec.Containers) {
		for i := range is.Spec.Containers {
			was.Spec.Containers[i].Image = is.Spec.Containers[i].Image
		}
	}
	if equality.Semantic.DeepEqual(is.Spec, was.Spec) {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, fmt.Sprintf(
		"while podUpdatePolicy is InPlaceOnly, only containers[*].image may change; this update also changes %s",
		strings.Join(Differences(was.Spec, is.Spec), ", ")))}
}

// Priority holds the rules for the order of an update: one list, no term that says nothing.
func Priority(p *shared.UpdatePriorityStrategy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(p.OrderPriority) > 0 && len(p.WeightPriority) > 0 {
		errs = append(errs, field.Forbidden(path, "only one of orderPriority and weightPriority may be set"))
	}
	for i, term := range p.OrderPriority {
		if term.OrderedKey == "" {
			errs = append(errs, field.Required(path.Child("orderPriority").Index(i).Child("orderedKey"), "the key of a pod label"))
		}
	}
	for i, term := range p.WeightPriority {
		path := path.Child("weightPriority").Index(i)
		if term.Weight < 0 || term.Weight > 100 {
			errs = append(errs, field.Invalid(path.Child("weight"), term.Weight, "must be from 0 to 100"))
		}
		selector := &term.MatchSelector
		if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
			errs = append(errs, field.Required(path.Child("matchSelector"), "an empty selector would match every pod"))
		}
		errs = append(errs, metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{},
			path.Child("matchSelector"))...)
	}
	return errs
}

// Fixed refuses the change of a field. was is its value.
func Fixed(path *field.Path, was string) *field.Error {
	return field.Forbidden(path, fmt.Sprintf("cannot be changed once the set exists; it is %s", was))
}

// OneOf requires one of the allowed values. The empty value is allowed where it is listed, and never named in the message.
func OneOf[T ~string](path *field.Path, value T, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	allowed = slices.DeleteFunc(allowed, func(v T) bool { return v == "" })
	slices.SortFunc(allowed, cmp.Compare[T])
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

// Plain is the value as the user wrote it: messages show 3 or "3%", not the parts of our type.
func Plain(v intstr.IntOrString) any {
	if v.Type == intstr.Int {
		return v.IntVal
	}
	return v.StrVal
}
