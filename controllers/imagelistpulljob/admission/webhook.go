// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is admission for ImageListPullJobs of apps.kruise.io: it fills in defaults and refuses
// impossible objects. Both versions have the same fields, so v1alpha1 clients lose nothing.
package admission

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-imagelistpulljob,mutating=true,groups=apps.kruise.io,resources=imagelistpulljobs,verbs=create;update,versions=v1beta1,name=default.imagelistpulljobs.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-imagelistpulljob,mutating=false,groups=apps.kruise.io,resources=imagelistpulljobs,verbs=create;update,versions=v1beta1,name=validate.imagelistpulljobs.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// Kind are the rules for ImageListPullJobs. daemon is the gate KruiseDaemon: without it no image would be pulled.
func Kind(daemon bool) admit.Kind[appsv1beta1.ImageListPullJob, *appsv1beta1.ImageListPullJob] {
	return admit.Kind[appsv1beta1.ImageListPullJob, *appsv1beta1.ImageListPullJob]{
		GroupVersionKind: appsv1beta1.GroupVersion().WithKind("ImageListPullJob"),
		Default:          Default,
		Warnings:         Warnings,
		Off:              rules.NobodyPulls(daemon),
		Validate:         Validate,
	}
}

// Warnings are about permitted parts with a surprising effect. old is nil for a creation.
func Warnings(list, old *appsv1beta1.ImageListPullJob) []string {
	if old == nil {
		return nil
	}
	return rules.EndedJob(old.Status.CompletionTime, list.Spec, old.Spec, func(spec *appsv1beta1.ImageListPullJobSpec) { spec.CompletionPolicy.TTLSecondsAfterFinished = nil })
}

// Default fills in the user's omissions. imagePullPolicy is left to the ImagePullJobs, as OpenKruise does.
func Default(list *appsv1beta1.ImageListPullJob) {
	rules.DefaultImagePull(&list.Spec.ImagePullJobTemplate)
}

// Validate returns the faults of a ImageListPullJob after Default.
func Validate(list *appsv1beta1.ImageListPullJob) field.ErrorList {
	path := field.NewPath("spec")
	errs := rules.Images(list.Spec.Images, path.Child("images"))
	return append(errs, rules.ImagePull(&list.Spec.ImagePullJobTemplate, path)...)
}
