// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is admission for EphemeralJobs of apps.kruise.io: it fills in defaults and refuses impossible objects.
//
// Beside the rules for all kinds (package admission): selector and template are immutable, as served pods would
// not be served again. Both versions have the same fields, so v1alpha1 clients lose nothing.
package admission

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-ephemeraljob,mutating=true,groups=apps.kruise.io,resources=ephemeraljobs,verbs=create;update,versions=v1beta1,name=default.ephemeraljobs.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-ephemeraljob,mutating=false,groups=apps.kruise.io,resources=ephemeraljobs,verbs=create;update,versions=v1beta1,name=validate.ephemeraljobs.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

const defaultParallelism int32 = 1

// Kind are the rules for EphemeralJobs.
func Kind() admit.Kind[appsv1beta1.EphemeralJob, *appsv1beta1.EphemeralJob] {
	return admit.Kind[appsv1beta1.EphemeralJob, *appsv1beta1.EphemeralJob]{
		GroupVersionKind: appsv1beta1.GroupVersion().WithKind("EphemeralJob"),
		Default:          Default,
		Warnings:         Warnings,
		Validate:         Validate,
		ValidateUpdate:   ValidateUpdate,
	}
}

// Warnings are about permitted parts with a surprising effect. old is nil for a creation.
func Warnings(job, old *appsv1beta1.EphemeralJob) []string {
	if old == nil {
		return nil
	}
	return rules.EndedJob(old.Status.CompletionTime, job.Spec, old.Spec, func(spec *appsv1beta1.EphemeralJobSpec) { spec.TTLSecondsAfterFinished = nil })
}

// Default fills in defaults except the time to live, as OpenKruise does. The containers stay: the API server
// fills in theirs on the pods.
func Default(job *appsv1beta1.EphemeralJob) {
	rules.OrDefault(&job.Spec.Parallelism, defaultParallelism)
}

// Validate returns the faults of a EphemeralJob after Default.
func Validate(job *appsv1beta1.EphemeralJob) field.ErrorList {
	spec, path := &job.Spec, field.NewPath("spec")
	errs := rules.Metadata(&job.ObjectMeta, field.NewPath("metadata"))
	if selector := spec.Selector; selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		errs = append(errs, field.Required(path.Child("selector"), "must name labels: an empty selector would mean every pod of the namespace"))
	} else {
		errs = append(errs, rules.LabelSelector(selector, path.Child("selector"))...)
	}
	errs = append(errs, rules.NotNegative(spec.Replicas, path.Child("replicas"))...)
	errs = append(errs, rules.NotNegative(spec.Parallelism, path.Child("parallelism"))...)
	errs = append(errs, rules.NotNegative(spec.ActiveDeadlineSeconds, path.Child("activeDeadlineSeconds"))...)
	errs = append(errs, rules.NotNegative(spec.TTLSecondsAfterFinished, path.Child("ttlSecondsAfterFinished"))...)
	return append(errs, containers(spec.Template.EphemeralContainers, path.Child("template", "ephemeralContainers"))...)
}

// ValidateUpdate returns forbidden changes.
func ValidateUpdate(job, old *appsv1beta1.EphemeralJob) field.ErrorList {
	const why = "cannot be changed once the job exists: pods that have the containers would keep them; create another job"
	path := field.NewPath("spec")
	var errs field.ErrorList
	if !equality.Semantic.DeepEqual(job.Spec.Selector, old.Spec.Selector) {
		errs = append(errs, field.Forbidden(path.Child("selector"), why))
	}
	if !equality.Semantic.DeepEqual(job.Spec.Template, old.Spec.Template) {
		errs = append(errs, field.Forbidden(path.Child("template"), why))
	}
	return errs
}
