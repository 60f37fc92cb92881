// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is admission for ImagePullJobs of apps.kruise.io: it fills in defaults and refuses
// impossible objects. Both versions have the same fields, so v1alpha1 clients lose nothing.
package admission

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-imagepulljob,mutating=true,groups=apps.kruise.io,resources=imagepulljobs,verbs=create;update,versions=v1beta1,name=default.imagepulljobs.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-imagepulljob,mutating=false,groups=apps.kruise.io,resources=imagepulljobs,verbs=create;update,versions=v1beta1,name=validate.imagepulljobs.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// Kind are the rules for ImagePullJobs. daemon is the gate KruiseDaemon: without it no image would be pulled.
func Kind(daemon bool) admit.Kind[appsv1beta1.ImagePullJob, *appsv1beta1.ImagePullJob] {
	return admit.Kind[appsv1beta1.ImagePullJob, *appsv1beta1.ImagePullJob]{
		GroupVersionKind: appsv1beta1.GroupVersion().WithKind("ImagePullJob"),
		Default:          Default,
		Warnings:         Warnings,
		Off:              rules.NobodyPulls(daemon),
		Validate:         Validate,
	}
}

// Warnings are about permitted parts with a surprising effect. old is nil for a creation.
func Warnings(job, old *appsv1beta1.ImagePullJob) []string {
	if old == nil {
		return nil
	}
	return rules.EndedJob(old.Status.CompletionTime, job.Spec, old.Spec, func(spec *appsv1beta1.ImagePullJobSpec) { spec.CompletionPolicy.TTLSecondsAfterFinished = nil })
}

// Default fills in the user's omissions.
func Default(job *appsv1beta1.ImagePullJob) {
	rules.DefaultImagePull(&job.Spec.ImagePullJobTemplate)
	job.Spec.ImagePullPolicy = cmp.Or(job.Spec.ImagePullPolicy, appsv1beta1.PullIfNotPresent)
}

// Validate returns the faults of a ImagePullJob after Default.
func Validate(job *appsv1beta1.ImagePullJob) field.ErrorList {
	path := field.NewPath("spec")
	errs := rules.Image(job.Spec.Image, path.Child("image"))
	return append(errs, rules.ImagePull(&job.Spec.ImagePullJobTemplate, path)...)
}
