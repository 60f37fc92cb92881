// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package rules holds the pure admission rules several kinds share: replicas, selectors,
// pod templates, names and the order of updates. Errors carry the paths given to the rule.
package rules

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/budget"
	"github.com/kruise-operator/kruise-operator/internal/engine/podtemplate"
)

// Workload checks the fields of every workload of pods: replicas, selector, pod template.
// path is the spec's, kind is for messages.
func Workload(kind string, replicas *int32, selector *metav1.LabelSelector, template *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if replicas != nil && *replicas < 0 {
		errs = append(errs, field.Invalid(path.Child("replicas"), *replicas, "must be 0 or more"))
	}
	errs = append(errs, Selects(selector, template.Labels, path.Child("selector"), path.Child("template", "metadata", "labels"))...)
	return append(errs, podTemplate(kind, template, path.Child("template"))...)
}

// Selects requires a selector for a template's labels, and not for every pod.
func Selects(labelSelector *metav1.LabelSelector, carried map[string]string, path, labelsPath *field.Path) field.ErrorList {
	if labelSelector == nil {
		return field.ErrorList{field.Required(path, "a selector that matches the labels of the template")}
	}
	if len(labelSelector.MatchLabels)+len(labelSelector.MatchExpressions) == 0 {
		return field.ErrorList{field.Invalid(path, "{}", "must not be empty: it would match every pod")}
	}
	if errs := LabelSelector(labelSelector, path); len(errs) > 0 {
		return errs
	}
	selector, err := metav1.LabelSelectorAsSelector(labelSelector)
	if err != nil {
		return field.ErrorList{field.Invalid(path, metav1.FormatLabelSelector(labelSelector), err.Error())}
	}
	if !selector.Matches(labels.Set(carried)) {
		return field.ErrorList{field.Invalid(labelsPath, carried, fmt.Sprintf("must match spec.selector, which is %s", selector))}
	}
	return nil
}

// NonEmptySelector requires a well-formed selector with a condition. A nil one is left to
// the caller.
func NonEmptySelector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	switch {
	case selector == nil:
		return nil
	case len(selector.MatchLabels)+len(selector.MatchExpressions) == 0:
		return field.ErrorList{field.Invalid(path, "{}", "must not be empty: leave it out, or name labels")}
	}
	return LabelSelector(selector, path)
}

// maxKeys is how many labels, annotations or terms of a selector are checked. Nobody reads the faults of more, and finding them is expensive.
const maxKeys = 1000

// ObjectKeys limits the number of labels and annotations.
func ObjectKeys(object *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(object.Labels) > maxKeys {
		errs = append(errs, field.TooMany(path.Child("labels"), -1, maxKeys))
	}
	if len(object.Annotations) > maxKeys {
		errs = append(errs, field.TooMany(path.Child("annotations"), -1, maxKeys))
	}
	return errs
}

// maxOwners is how many owner references are checked: Kubernetes' own check lists all of
// them for each one too many. The API server makes it too, so no object with more gets in.
const maxOwners = 50

// Metadata requires a subdomain as the name, and labels and annotations the server takes. A
// missing name passes: it is still to be generated, or the API server asks for it.
func Metadata(object *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	if errs := ObjectKeys(object, path); len(errs) > 0 {
		return errs
	}
	if len(object.OwnerReferences) > maxOwners {
		object = &metav1.ObjectMeta{
			Name: object.Name, GenerateName: object.GenerateName, Namespace: object.Namespace,
			Labels: object.Labels, Annotations: object.Annotations, Finalizers: object.Finalizers,
		}
	}
	errs := apivalidation.ValidateObjectMeta(object, true, apivalidation.NameIsDNSSubdomain, path)
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		return object.Name == "" && e.Type == field.ErrorTypeRequired && e.Field == path.Child("name").String()
	})
}

// LabelSelector are the faults of a selector.
func LabelSelector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	terms := len(selector.MatchLabels)
	for i := range selector.MatchExpressions {
		terms += 1 + len(selector.MatchExpressions[i].Values)
	}
	if terms > maxKeys {
		return field.ErrorList{field.TooMany(path, -1, maxKeys)}
	}
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
}

// podTemplate refuses only mistakes that would stop a workload permanently. The API server
// checks the rest.
func podTemplate(kind string, template *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	errs := TemplateMetadata(&template.ObjectMeta, path.Child("metadata"))
	for _, label := range podtemplate.Reserved() {
		if _, found := template.Labels[label]; found {
			errs = append(errs, field.Forbidden(path.Child("metadata", "labels").Key(label), "is for single pods, and means nothing in a template"))
		}
	}
	if p := template.Spec.RestartPolicy; p != "" && p != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("spec", "restartPolicy"), p, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("spec", "activeDeadlineSeconds"), fmt.Sprintf("the pods of a %s have no deadline", kind)))
	}
	return errs
}

// ReservedLabels warns of labels in a stored template that pods do not get.
func ReservedLabels(template *corev1.PodTemplateSpec) []string {
	var warnings []string
	for _, label := range podtemplate.Reserved() {
		if _, found := template.Labels[label]; found {
			warnings = append(warnings, fmt.Sprintf("%s: is for single pods, and not given to pods from the template",
				field.NewPath("spec", "template", "metadata", "labels").Key(label)))
		}
	}
	return warnings
}

// InPlaceOnly refuses a template that needs more than an edit of images. Defaults of the
// API server are no difference.
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
		Differences(was.Spec, is.Spec)))}
}

// undrained warns when an update switches on updates in place and existing pods may lack the readiness gate by which they are taken out of service. Only
// pods that this operator has not created lack the gate. now and before are the policies, old is the previous template.
func undrained(now, before shared.PodUpdatePolicy, old *corev1.PodTemplateSpec) []string {
	inPlace := func(policy shared.PodUpdatePolicy) bool {
		return policy == shared.InPlaceIfPossible || policy == shared.InPlaceOnly
	}
	gated := slices.ContainsFunc(old.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == shared.GateInPlaceUpdateReady })
	if !inPlace(now) || inPlace(before) || gated {
		return nil
	}
	return []string{fmt.Sprintf("spec.updateStrategy.rollingUpdate.podUpdatePolicy: pods that exist without the readiness gate %s are not taken out of service "+
		"while they are updated in place; new pods have it", shared.GateInPlaceUpdateReady)}
}

// Priority checks the order of an update: one list, no empty term.
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
		errs = append(errs, LabelSelector(selector, path.Child("matchSelector"))...)
	}
	return errs
}

// Scatter holds the rules for spreading pods over the order of an update: terms with a key, each once.
func Scatter(terms []shared.UpdateScatterTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	known := make(map[shared.UpdateScatterTerm]struct{}, len(terms))
	for i, term := range terms {
		_, twice := known[term]
		switch {
		case term.Key == "":
			errs = append(errs, field.Required(path.Index(i).Child("key"), "the key of a pod label"))
		case twice:
			errs = append(errs, field.Duplicate(path.Index(i), term.Key+"="+term.Value))
		}
		known[term] = struct{}{}
	}
	return errs
}

// ACount describes the values of an int-or-string field.
const ACount = `must be a whole number of at least 0, or a percentage such as "30%"`

// Count requires a number or a percentage. Nil is none.
func Count(v *intstr.IntOrString, path *field.Path) field.ErrorList {
	if v == nil {
		return nil
	}
	if _, err := budget.Count(*v, 0, budget.Up); err != nil {
		return field.ErrorList{field.Invalid(path, Plain(*v), ACount)}
	}
	return nil
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

// OrDefault gives an omitted field its default.
func OrDefault[T any](value **T, def T) {
	if *value == nil {
		*value = &def
	}
}

// Faults are what a check says of a value.
func Faults(path *field.Path, value any, faults []string) field.ErrorList {
	var errs field.ErrorList
	for _, fault := range faults {
		errs = append(errs, field.Invalid(path, value, fault))
	}
	return errs
}

// Given counts how many of some alternatives are there.
func Given(alternatives ...bool) int {
	return len(slices.DeleteFunc(alternatives, func(is bool) bool { return !is }))
}
