// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// LabelName requires a name to be a DNS label of at most longest characters; why says who
// needs the rest. Of a name yet to be generated it checks the prefix.
func LabelName(object *metav1.ObjectMeta, longest int, why string) field.ErrorList {
	name, path := object.Name, field.NewPath("metadata", "name")
	if name == "" {
		if object.GenerateName == "" {
			return nil // the API server asks for it
		}
		name, path = strings.TrimRight(object.GenerateName, "-"), field.NewPath("metadata", "generateName")
	}
	var errs field.ErrorList
	if len(name) > longest {
		errs = append(errs, field.Invalid(path, name, fmt.Sprintf("must have at most %d characters: %s", longest, why)))
	}
	for _, message := range validation.IsDNS1123Label(name) {
		if len(name) <= longest || !strings.Contains(message, "no more than") {
			errs = append(errs, field.Invalid(path, name, message))
		}
	}
	return errs
}

// NotNegative requires 0 or more, or nothing.
func NotNegative[T int32 | int64](value *T, path *field.Path) field.ErrorList {
	if value == nil || *value >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *value, "must be 0 or more")}
}

// TemplateMetadata checks the labels and annotations of a template.
func TemplateMetadata(object *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	if errs := ObjectKeys(object, path); len(errs) > 0 {
		return errs
	}
	errs := metav1validation.ValidateLabels(object.Labels, path.Child("labels"))
	return append(errs, apivalidation.ValidateAnnotations(object.Annotations, path.Child("annotations"))...)
}

// RunsToCompletion checks the pod template of a job, as far as the API server does not.
// path is the template's.
func RunsToCompletion(template *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	errs := TemplateMetadata(&template.ObjectMeta, path.Child("metadata"))
	return append(errs, OneOf(path.Child("spec", "restartPolicy"), template.Spec.RestartPolicy, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure)...)
}

// BroadcastJob checks the spec of a BroadcastJob, its own or one inside a template.
func BroadcastJob(spec *appsv1beta1.BroadcastJobSpec, path *field.Path) field.ErrorList {
	errs := parallelism(spec.Parallelism, path.Child("parallelism"))
	errs = append(errs, RunsToCompletion(&spec.Template, path.Child("template"))...)
	for _, label := range []string{shared.LabelBroadcastJobName, shared.LabelBroadcastJobUID} {
		if _, found := spec.Template.Labels[label]; found {
			errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), label, "is given to pods by the operator, and cannot be in a template"))
		}
	}
	policy, at := &spec.CompletionPolicy, path.Child("completionPolicy")
	errs = append(errs, NotNegative(policy.ActiveDeadlineSeconds, at.Child("activeDeadlineSeconds"))...)
	errs = append(errs, NotNegative(policy.TTLSecondsAfterFinished, at.Child("ttlSecondsAfterFinished"))...)
	if policy.Type == appsv1beta1.BroadcastJobNever {
		const rule = "must be absent when completionPolicy.type is Never"
		if d := policy.ActiveDeadlineSeconds; d != nil {
			errs = append(errs, field.Invalid(at.Child("activeDeadlineSeconds"), *d, rule))
		}
		if ttl := policy.TTLSecondsAfterFinished; ttl != nil {
			errs = append(errs, field.Invalid(at.Child("ttlSecondsAfterFinished"), *ttl, rule))
		}
	}
	return append(errs, NotNegative(&spec.FailurePolicy.RestartLimit, path.Child("failurePolicy", "restartLimit"))...)
}

// BroadcastJobWarnings names the parts of a BroadcastJob's spec without effect.
func BroadcastJobWarnings(spec *appsv1beta1.BroadcastJobSpec, path *field.Path) []string {
	if spec.FailurePolicy.RestartLimit > 0 && spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return []string{path.Child("failurePolicy", "restartLimit").String() + ": has no effect, because restartPolicy is not OnFailure"}
	}
	return nil
}

func parallelism(value *intstr.IntOrString, path *field.Path) field.ErrorList {
	switch {
	case value == nil:
		return nil
	case value.Type == intstr.Int && value.IntVal < 0:
		return field.ErrorList{field.Invalid(path, value.IntVal, `must be 0 or more, or a percentage such as "10%"`)}
	case value.Type == intstr.String:
		digits, isPercent := strings.CutSuffix(value.StrVal, "%")
		if n, err := strconv.ParseInt(digits, 10, 32); !isPercent || err != nil || n < 0 || digits[0] == '+' {
			return field.ErrorList{field.Invalid(path, value.StrVal, `must be a whole number of at least 0, or a percentage such as "10%"`)}
		}
	}
	return nil
}
