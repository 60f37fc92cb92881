// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/advancedcronjob/plan/schedule"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// Kind is the planned kind, in the stored version.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion().WithKind("AdvancedCronJob") }

// Spec is an AdvancedCronJob with defaults, parsed once a pass. Comments name the API's fields.
type Spec struct {
	// Cron is the object, Owner the runs' owner reference. Read-only.
	Cron  *appsv1beta1.AdvancedCronJob
	Owner metav1.OwnerReference
	// Deleting objects have a deletion timestamp.
	Deleting bool
	// Invalid names the first unparsable field; nil: none. With it, nothing starts.
	Invalid error

	// Schedule is spec.schedule in spec.timeZone.
	Schedule schedule.Schedule
	// StartingDeadline is spec.startingDeadlineSeconds; negative without one.
	StartingDeadline time.Duration
	// ConcurrencyPolicy is spec.concurrencyPolicy.
	ConcurrencyPolicy appsv1beta1.ConcurrencyPolicy
	// Paused is spec.paused.
	Paused bool
	// KeepSucceeded and KeepFailed are spec.successfulJobsHistoryLimit and spec.failedJobsHistoryLimit.
	KeepSucceeded, KeepFailed int

	// Adapter of spec.template; nil: unknown. Managed: somebody carries out this kind.
	Adapter *Adapter
	Managed bool
	// template is the stored field of spec.template: a newer server may know more fields of a Job.
	template map[string]any
}

// Parse parses an AdvancedCronJob. stored is its content as it is stored.
func Parse(cron *appsv1beta1.AdvancedCronJob, stored map[string]any, managed func(schema.GroupVersionKind) bool) *Spec {
	spec := &cron.Spec
	s := &Spec{
		Cron:              cron,
		Owner:             *metav1.NewControllerRef(cron, Kind()),
		Deleting:          cron.DeletionTimestamp != nil,
		StartingDeadline:  planning.Limit(spec.StartingDeadlineSeconds),
		ConcurrencyPolicy: cmp.Or(spec.ConcurrencyPolicy, appsv1beta1.AllowConcurrent),
		Paused:            ptr.Deref(spec.Paused, false),
		KeepSucceeded:     int(max(ptr.Deref(spec.SuccessfulJobsHistoryLimit, 3), 0)),
		KeepFailed:        int(max(ptr.Deref(spec.FailedJobsHistoryLimit, 1), 0)),
	}
	if s.Invalid = s.parseTemplate(stored, managed); s.Invalid == nil {
		s.Invalid = s.parseSchedule()
	}
	return s
}

func (s *Spec) parseTemplate(stored map[string]any, managed func(schema.GroupVersionKind) bool) error {
	chosen := AdaptersOf(&s.Cron.Spec.Template)
	if len(chosen) != 1 {
		return fmt.Errorf("spec.template: has %d of jobTemplate, broadcastJobTemplate and imageListPullJobTemplate; want exactly one", len(chosen))
	}
	s.Adapter = &chosen[0]
	s.Managed = managed(s.Adapter.Kind)
	s.template, _, _ = unstructured.NestedMap(stored, "spec", "template", s.Adapter.Field)
	return nil
}

func (s *Spec) parseSchedule() error {
	var zone *time.Location
	var err error
	if name := s.Cron.Spec.TimeZone; name != nil {
		if zone, err = schedule.Zone(*name); err != nil {
			return fmt.Errorf("spec.timeZone: %w", err)
		}
	}
	if s.Schedule, err = schedule.Parse(s.Cron.Spec.Schedule, zone); err != nil {
		return fmt.Errorf("spec.schedule: %w", err)
	}
	return nil
}

// scheduleText is spec.schedule with its time zone, as the status remembers it.
func (s *Spec) scheduleText() string {
	return strings.TrimSpace(s.Cron.Spec.Schedule + " " + ptr.Deref(s.Cron.Spec.TimeZone, ""))
}

// edited is when the schedule was last seen to change; zero when it never was.
func (s *Spec) edited(now time.Time) time.Time {
	status := &s.Cron.Status
	switch {
	case status.ObservedSchedule != "" && status.ObservedSchedule != s.scheduleText():
		return now
	case status.ScheduleChangedTime != nil:
		return status.ScheduleChangedTime.UTC()
	}
	return time.Time{}
}

// newRun is the run of an instant, named after it, so no instant starts twice.
func (s *Spec) newRun(due time.Time) *unstructured.Unstructured {
	run := &unstructured.Unstructured{Object: map[string]any{}}
	run.SetGroupVersionKind(s.Adapter.Kind)
	run.SetNamespace(s.Cron.Namespace)
	run.SetName(fmt.Sprintf("%s-%d", s.Cron.Name, due.Unix()))
	labels, _, _ := unstructured.NestedStringMap(s.template, "metadata", "labels")
	annotations, _, _ := unstructured.NestedStringMap(s.template, "metadata", "annotations")
	lazy.Put(&labels, shared.LabelAdvancedCronJob, s.Cron.Name)
	lazy.Put(&annotations, shared.AnnotationScheduledAt, due.Format(time.RFC3339))
	run.SetLabels(labels)
	run.SetAnnotations(annotations)
	run.SetOwnerReferences([]metav1.OwnerReference{s.Owner})
	if content, found, _ := unstructured.NestedMap(s.template, "spec"); found {
		run.Object["spec"] = content
	}
	if s.Adapter.silent {
		alwaysPull(run)
	}
	return run
}

// alwaysPull sets OpenKruise's default imagePullPolicy on main
// containers, whatever the tag. BroadcastJobs do so themselves.
func alwaysPull(run *unstructured.Unstructured) {
	found, _, _ := unstructured.NestedFieldNoCopy(run.Object, "spec", "template", "spec", "containers")
	containers, _ := found.([]any)
	for _, entry := range containers {
		if container, ok := entry.(map[string]any); ok && (container["imagePullPolicy"] == nil || container["imagePullPolicy"] == "") {
			container["imagePullPolicy"] = string(corev1.PullAlways)
		}
	}
}
