// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AdvancedCronJobSpec says what is run, and when.
type AdvancedCronJobSpec struct {
	// schedule is a cron expression of five fields, such as "30 2 * * 1-5", or a descriptor such as @hourly or "@every 5m". It may begin
	// with TZ=<zone> or CRON_TZ=<zone> if timeZone is omitted. @every counts from the last run, and from the creation for the first one.
	// A change counts from the moment on in which the operator sees it: no run is started for an earlier time.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Schedule string `json:"schedule"`

	// timeZone is the IANA name of the time zone in which schedule is read, such as Europe/Berlin. When omitted, it is UTC.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	TimeZone *string `json:"timeZone,omitempty"`

	// startingDeadlineSeconds is how late a run may start, in seconds; a run that is later is left out. Less than 10 may leave out runs when
	// the operator is busy. When omitted, there is no limit.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// concurrencyPolicy says what a run does while an earlier one is active: Allow starts it all the same, Forbid lets it wait, and a
	// later one takes its place; Replace deletes the earlier ones. When omitted, it is Allow, and Replace for imageListPullJobTemplate, for
	// which Allow is not permitted.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Allow","urn:alm:descriptor:com.tectonic.ui:select:Forbid","urn:alm:descriptor:com.tectonic.ui:select:Replace"}
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// paused starts no further run. Runs that are active go on. When omitted, it is false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:booleanSwitch"
	Paused *bool `json:"paused,omitempty"`

	// successfulJobsHistoryLimit is how many runs that succeeded are kept. When omitted, it is 3.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:number"
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// failedJobsHistoryLimit is how many runs that failed are kept. When omitted, it is 1.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:number"
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`

	// template is what is created for each run. Its content may change, and counts from the next run on; which of the three it is may not.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Template CronJobTemplate `json:"template"`
}

// ConcurrencyPolicy says what a run does while an earlier one is active.
// +kubebuilder:validation:Enum="";Allow;Forbid;Replace
type ConcurrencyPolicy string

const (
	// AllowConcurrent starts the run.
	AllowConcurrent ConcurrencyPolicy = "Allow"
	// ForbidConcurrent lets the run wait until none is active.
	ForbidConcurrent ConcurrencyPolicy = "Forbid"
	// ReplaceConcurrent deletes the active ones and starts the run.
	ReplaceConcurrent ConcurrencyPolicy = "Replace"
)

// CronJobTemplate is what is created for each run: exactly one of its fields.
type CronJobTemplate struct {
	// jobTemplate is a Job of batch/v1.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	JobTemplate *batchv1.JobTemplateSpec `json:"jobTemplate,omitempty"`

	// broadcastJobTemplate is a BroadcastJob. One that never completes is refused.
	// +optional
	BroadcastJobTemplate *BroadcastJobTemplateSpec `json:"broadcastJobTemplate,omitempty"`

	// imageListPullJobTemplate is an ImageListPullJob. Its completionPolicy.type must be Always, without ttlSecondsAfterFinished. An update
	// through v1alpha1 that leaves it out keeps it.
	// +optional
	ImageListPullJobTemplate *ImageListPullJobTemplateSpec `json:"imageListPullJobTemplate,omitempty"`
}

// AdvancedCronJobStatus is what was last observed of an AdvancedCronJob.
type AdvancedCronJobStatus struct {
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// type is the kind of what is created: Job, BroadcastJob or ImageListPullJob.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Type string `json:"type,omitempty"`
	// active are the runs that have not ended, the newest 100 of them.
	// +optional
	// +listType=atomic
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Active []corev1.ObjectReference `json:"active,omitempty"`
	// lastScheduleTime is when the newest run that was started was due. It never goes back.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// nextScheduleTime is when the next run is due. Empty while paused.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
	// observedSchedule is the schedule that this status is about, with its time zone.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	ObservedSchedule string `json:"observedSchedule,omitempty"`
	// scheduleChangedTime is when schedule or timeZone was last seen to change. No run is started for an earlier time. Empty: they never changed.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	ScheduleChangedTime *metav1.Time `json:"scheduleChangedTime,omitempty"`
	// conditions say what stops the next run.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:io.kubernetes.conditions"
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=advancedcronjobs,scope=Namespaced,shortName=acj,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="AdvancedCronJob",order=11,resources={{Job,batch/v1,""},{BroadcastJob,apps.kruise.io/v1beta1,""},{ImageListPullJob,apps.kruise.io/v1beta1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="Schedule",type="string",JSONPath=".spec.schedule",description="When runs are due."
// +kubebuilder:printcolumn:name="Type",type="string",JSONPath=".status.type",description="The kind of what is created."
// +kubebuilder:printcolumn:name="LastScheduleTime",type="date",JSONPath=".status.lastScheduleTime",description="When the newest run was due."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="TimeZone",type="string",priority=1,JSONPath=".spec.timeZone",description="The time zone of the schedule; UTC when empty."
// +kubebuilder:printcolumn:name="Paused",type="boolean",priority=1,JSONPath=".spec.paused",description="Whether no run is started."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// AdvancedCronJob creates a Job, a BroadcastJob or an ImageListPullJob each time that its schedule says.
type AdvancedCronJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what is run, and when.
	Spec AdvancedCronJobSpec `json:"spec,omitempty"`
	// status is what was last observed.
	Status AdvancedCronJobStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// AdvancedCronJobList is a list of AdvancedCronJobs.
type AdvancedCronJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AdvancedCronJob `json:"items"`
}
