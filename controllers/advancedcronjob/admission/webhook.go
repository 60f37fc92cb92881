// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission admits AdvancedCronJobs of apps.kruise.io: it fills in defaults and refuses faults.
//
// Beyond the rules for all kinds (package admission), it refuses templates of pods or Jobs the API server
// would refuse. Updates through v1alpha1 keep imageListPullJobTemplate, unknown to OpenKruise's v1alpha1.
package admission

import (
	"cmp"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-advancedcronjob,mutating=true,groups=apps.kruise.io,resources=advancedcronjobs,verbs=create;update,versions=v1beta1,name=default.advancedcronjobs.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-advancedcronjob,mutating=false,groups=apps.kruise.io,resources=advancedcronjobs,verbs=create;update,versions=v1beta1,name=validate.advancedcronjobs.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// Kind are the rules for AdvancedCronJobs.
func Kind() admit.Kind[appsv1beta1.AdvancedCronJob, *appsv1beta1.AdvancedCronJob] {
	return admit.Kind[appsv1beta1.AdvancedCronJob, *appsv1beta1.AdvancedCronJob]{
		GroupVersionKind: appsv1beta1.GroupVersion().WithKind("AdvancedCronJob"),
		Older:            appsv1alpha1.GroupVersion().Version,
		Opaque:           []string{},
		Keep:             Keep,
		Default:          Default,
		Validate:         Validate,
		ValidateUpdate:   ValidateUpdate,
		Warnings:         Warnings,
		Templates:        podTemplate,
		RefuseTemplates:  true,
	}
}

// Default fills in the user's omissions. Templates of Jobs and BroadcastJobs stay as written.
func Default(cron *appsv1beta1.AdvancedCronJob) {
	spec := &cron.Spec
	images := spec.Template.ImageListPullJobTemplate
	if images != nil {
		spec.ConcurrencyPolicy = cmp.Or(spec.ConcurrencyPolicy, appsv1beta1.ReplaceConcurrent)
	}
	spec.ConcurrencyPolicy = cmp.Or(spec.ConcurrencyPolicy, appsv1beta1.AllowConcurrent)
	rules.OrDefault(&spec.Paused, false)
	rules.OrDefault(&spec.SuccessfulJobsHistoryLimit, 3)
	rules.OrDefault(&spec.FailedJobsHistoryLimit, 1)
	if images != nil && images.Spec.CompletionPolicy.Type == "" {
		images.Spec.CompletionPolicy.Type = appsv1beta1.CompleteAlways
		rules.OrDefault(&images.Spec.PullPolicy, appsv1beta1.PullPolicy{})
		rules.OrDefault(&images.Spec.PullPolicy.TimeoutSeconds, 600)
		rules.OrDefault(&images.Spec.PullPolicy.BackoffLimit, 3)
		images.Spec.ImagePullPolicy = cmp.Or(images.Spec.ImagePullPolicy, appsv1beta1.PullIfNotPresent)
	}
}

// Keep restores imageListPullJobTemplate if an update names no template: a v1alpha1 client may not know the field.
func Keep(cron, old *appsv1beta1.AdvancedCronJob) {
	if template := &cron.Spec.Template; *template == (appsv1beta1.CronJobTemplate{}) {
		template.ImageListPullJobTemplate = old.Spec.Template.ImageListPullJobTemplate
	}
}

// podTemplate is the runs' pod template.
func podTemplate(cron *appsv1beta1.AdvancedCronJob) admit.Templates {
	switch template := &cron.Spec.Template; {
	case template.JobTemplate != nil:
		return admit.Templates{Pod: &template.JobTemplate.Spec.Template, Job: &template.JobTemplate.Spec, Field: within("jobTemplate")}
	case template.BroadcastJobTemplate != nil:
		return admit.Templates{Pod: &template.BroadcastJobTemplate.Spec.Template, Field: within("broadcastJobTemplate")}
	default:
		return admit.Templates{}
	}
}

// within renames a field of a run's spec to its place in the template.
func within(template string) func(string) string {
	return func(path string) string { return "spec.template." + template + "." + path }
}
