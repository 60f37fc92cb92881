// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/advancedcronjob/plan"
	"github.com/kruise-operator/kruise-operator/controllers/advancedcronjob/plan/schedule"
	"github.com/kruise-operator/kruise-operator/internal/engine/jobsidecar"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

const (
	// longestName leaves room for a run's suffix, a hyphen and ten digits: pods carry the name in a label.
	longestName = 52
	// maxDeadline is the longest activeDeadlineSeconds of a run that pulls images.
	maxDeadline = 24 * 60 * 60
	// shortDeadline: a busy operator may miss a shorter startingDeadlineSeconds.
	shortDeadline = 10
)

// Validate returns the faults of a AdvancedCronJob after Default.
func Validate(cron *appsv1beta1.AdvancedCronJob) field.ErrorList {
	spec, path := &cron.Spec, field.NewPath("spec")
	errs := rules.LabelName(&cron.ObjectMeta, longestName, "the names of its runs add 11 characters")
	errs = append(errs, validateSchedule(spec, path)...)
	errs = append(errs, rules.NotNegative(spec.StartingDeadlineSeconds, path.Child("startingDeadlineSeconds"))...)
	errs = append(errs, rules.NotNegative(spec.SuccessfulJobsHistoryLimit, path.Child("successfulJobsHistoryLimit"))...)
	errs = append(errs, rules.NotNegative(spec.FailedJobsHistoryLimit, path.Child("failedJobsHistoryLimit"))...)
	return append(errs, validateTemplate(spec, path)...)
}

func validateSchedule(spec *appsv1beta1.AdvancedCronJobSpec, path *field.Path) field.ErrorList {
	var zone *time.Location
	var errs field.ErrorList
	if name := spec.TimeZone; name != nil {
		var err error
		if zone, err = schedule.Zone(*name); err != nil {
			errs = append(errs, field.Invalid(path.Child("timeZone"), *name, err.Error()))
			zone = time.UTC // so that the schedule is looked at, too
		}
	}
	if _, err := schedule.Parse(spec.Schedule, zone); err != nil {
		errs = append(errs, field.Invalid(path.Child("schedule"), spec.Schedule, err.Error()))
	}
	return errs
}

// kindOf names the given fields of a template.
func kindOf(template *appsv1beta1.CronJobTemplate) []string {
	var set []string
	for _, adapter := range plan.AdaptersOf(template) {
		set = append(set, adapter.Field)
	}
	return set
}

func validateTemplate(spec *appsv1beta1.AdvancedCronJobSpec, path *field.Path) field.ErrorList {
	template, path, policy := &spec.Template, path.Child("template"), path.Child("concurrencyPolicy")
	if set := kindOf(template); len(set) != 1 {
		has := "none"
		if len(set) > 0 {
			has = strings.Join(set, " and ")
		}
		return field.ErrorList{field.Forbidden(path, "must have exactly one of jobTemplate, broadcastJobTemplate and imageListPullJobTemplate; it has "+has)}
	}
	switch {
	case template.JobTemplate != nil:
		return validateJob(template.JobTemplate, path.Child("jobTemplate"))
	case template.BroadcastJobTemplate != nil:
		return validateBroadcastJob(template.BroadcastJobTemplate, path.Child("broadcastJobTemplate"))
	}
	errs := validateImageListPullJob(template.ImageListPullJobTemplate, path.Child("imageListPullJobTemplate"))
	if spec.ConcurrencyPolicy == appsv1beta1.AllowConcurrent {
		errs = append(errs, field.Invalid(policy, spec.ConcurrencyPolicy, "must be Forbid or Replace with imageListPullJobTemplate"))
	}
	return errs
}

func validateJob(template *batchv1.JobTemplateSpec, path *field.Path) field.ErrorList {
	errs := rules.TemplateMetadata(&template.ObjectMeta, path.Child("metadata"))
	return append(errs, rules.RunsToCompletion(&template.Spec.Template, path.Child("spec", "template"))...)
}

func validateBroadcastJob(template *appsv1beta1.BroadcastJobTemplateSpec, path *field.Path) field.ErrorList {
	errs := rules.TemplateMetadata(&template.ObjectMeta, path.Child("metadata"))
	errs = append(errs, rules.BroadcastJob(&template.Spec, path.Child("spec"))...)
	if t := template.Spec.CompletionPolicy.Type; t == appsv1beta1.BroadcastJobNever {
		errs = append(errs, field.Invalid(path.Child("spec", "completionPolicy", "type"), t,
			"must be Always: a run that never completes stays active for ever"))
	}
	return errs
}

// validateImageListPullJob checks an ImageListPullJob template:
// by the rules of the kind, and of runs. path is the template's.
func validateImageListPullJob(template *appsv1beta1.ImageListPullJobTemplateSpec, path *field.Path) field.ErrorList {
	errs := rules.TemplateMetadata(&template.ObjectMeta, path.Child("metadata"))
	spec, path := &template.Spec, path.Child("spec")
	errs = append(errs, rules.Images(spec.Images, path.Child("images"))...)
	policy, at := &spec.CompletionPolicy, path.Child("completionPolicy")
	if policy.Type != appsv1beta1.CompleteAlways {
		errs = append(errs, field.Invalid(at.Child("type"), policy.Type, "must be Always: a run that never completes stays active for ever"))
	}
	if d := policy.ActiveDeadlineSeconds; d != nil && *d > maxDeadline {
		errs = append(errs, field.Invalid(at.Child("activeDeadlineSeconds"), *d, fmt.Sprintf("must be at most %d", maxDeadline)))
	}
	if ttl := policy.TTLSecondsAfterFinished; ttl != nil {
		errs = append(errs, field.Invalid(at.Child("ttlSecondsAfterFinished"), *ttl, "must be absent: the history limits say how long runs are kept"))
	}
	pull := spec.ImagePullJobTemplate // as a run has it: what is said above is not said twice
	pull.CompletionPolicy.Type, pull.CompletionPolicy.TTLSecondsAfterFinished = appsv1beta1.CompleteAlways, nil
	return append(errs, rules.ImagePull(&pull, path)...)
}

// ValidateUpdate keeps the template's kind. Two kinds would mean two histories.
func ValidateUpdate(cron, old *appsv1beta1.AdvancedCronJob) field.ErrorList {
	is, was := kindOf(&cron.Spec.Template), kindOf(&old.Spec.Template)
	if len(is) != 1 || len(was) != 1 || is[0] == was[0] {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "template"),
		fmt.Sprintf("cannot change from %s to %s; create another AdvancedCronJob", was[0], is[0]))}
}

// Warnings are about permitted parts with a surprising effect. old is nil for a creation.
func Warnings(cron, _ *appsv1beta1.AdvancedCronJob) []string {
	var warnings []string
	spec := &cron.Spec
	if s, err := schedule.Parse(spec.Schedule, nil); err == nil && s.NeverDue() {
		warnings = append(warnings, fmt.Sprintf("spec.schedule: %q names a day that never comes; no run will be started", spec.Schedule))
	}
	if d := spec.StartingDeadlineSeconds; d != nil && *d < shortDeadline {
		warnings = append(warnings, fmt.Sprintf("spec.startingDeadlineSeconds: with less than %d seconds, runs can be left out while the operator is busy", shortDeadline))
	}
	if template := podTemplate(cron); template.Pod != nil {
		path := field.NewPath(template.Field("spec.template.spec"))
		warnings = append(warnings, jobsidecar.Warnings(&template.Pod.Spec, path)...)
	}
	if t := spec.Template.BroadcastJobTemplate; t != nil {
		warnings = append(warnings, rules.BroadcastJobWarnings(&t.Spec, field.NewPath("spec", "template", "broadcastJobTemplate", "spec"))...)
	}
	return warnings
}
