// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission admits BroadcastJobs of apps.kruise.io: it fills in defaults and refuses faults.
//
// Beyond the rules for all kinds (package admission), it refuses pod
// templates the API server would refuse. Both versions have the same fields.
package admission

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/budget"
	"github.com/kruise-operator/kruise-operator/internal/engine/jobsidecar"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-broadcastjob,mutating=true,groups=apps.kruise.io,resources=broadcastjobs,verbs=create;update,versions=v1beta1,name=default.broadcastjobs.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-broadcastjob,mutating=false,groups=apps.kruise.io,resources=broadcastjobs,verbs=create;update,versions=v1beta1,name=validate.broadcastjobs.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// longestName is the longest name of a job: its pods carry it in a label.
const longestName = 63

// Kind are the rules for BroadcastJobs.
func Kind() admit.Kind[appsv1beta1.BroadcastJob, *appsv1beta1.BroadcastJob] {
	return admit.Kind[appsv1beta1.BroadcastJob, *appsv1beta1.BroadcastJob]{
		GroupVersionKind: appsv1beta1.GroupVersion().WithKind("BroadcastJob"),
		Default:          Default,
		Validate:         Validate,
		Warnings:         Warnings,
		Templates: func(job *appsv1beta1.BroadcastJob) admit.Templates {
			return admit.Templates{Pod: &job.Spec.Template}
		},
		RefuseTemplates: true,
	}
}

// Warnings are about permitted parts with a surprising effect. old is nil for a creation.
func Warnings(job, old *appsv1beta1.BroadcastJob) []string {
	warnings := jobsidecar.Warnings(&job.Spec.Template.Spec, field.NewPath("spec", "template", "spec"))
	warnings = append(warnings, rules.BroadcastJobWarnings(&job.Spec, field.NewPath("spec"))...)
	if old != nil {
		untilGone := func(spec *appsv1beta1.BroadcastJobSpec) { spec.CompletionPolicy.TTLSecondsAfterFinished = nil }
		warnings = append(warnings, rules.EndedJob(old.Status.CompletionTime, job.Spec, old.Spec, untilGone)...)
	}
	return warnings
}

// Default fills in the user's omissions. The pod template stays as written.
func Default(job *appsv1beta1.BroadcastJob) {
	spec := &job.Spec
	rules.OrDefault(&spec.Parallelism, intstr.FromInt32(budget.Unlimited))
	spec.CompletionPolicy.Type = cmp.Or(spec.CompletionPolicy.Type, appsv1beta1.BroadcastJobAlways)
	spec.FailurePolicy.Type = cmp.Or(spec.FailurePolicy.Type, appsv1beta1.BroadcastJobFailFast)
}

// Validate returns the faults of a BroadcastJob after Default.
func Validate(job *appsv1beta1.BroadcastJob) field.ErrorList {
	errs := rules.LabelName(&job.ObjectMeta, longestName, "pods carry the name in a label")
	return append(errs, rules.BroadcastJob(&job.Spec, field.NewPath("spec"))...)
}
