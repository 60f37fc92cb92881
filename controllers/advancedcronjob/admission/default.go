// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

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
