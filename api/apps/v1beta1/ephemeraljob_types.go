// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EphemeralJobSpec is what an EphemeralJob adds, and to which pods.
type EphemeralJobSpec struct {
	// selector selects the targets among the pods of the job's namespace. It cannot be empty, and cannot be changed later.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Selector *metav1.LabelSelector `json:"selector"`

	// replicas is how many pods are targets at most. Those that have the containers come first, then pods that run, then the others, the
	// oldest first. When omitted, all pods that the selector matches are targets.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:podCount"
	Replicas *int32 `json:"replicas,omitempty"`

	// parallelism is in how many pods containers of the job may be at work at the same time. Containers that were added and have not
	// started count. The number 0 adds nothing. When omitted, it is 1.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Parallelism *int32 `json:"parallelism,omitempty"`

	// template is what is added to each target. It cannot be changed later.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Template EphemeralContainerTemplateSpec `json:"template"`

	// paused stops the adding of containers. Those that were added go on, and so does the deadline. When omitted, it is false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:booleanSwitch"
	Paused bool `json:"paused,omitempty"`

	// activeDeadlineSeconds is how long the job may take from its start, in seconds. When it is over, the job has failed, also while it waits or
	// is paused. Running containers continue, because nothing can stop them from outside. When omitted, there is no limit.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// ttlSecondsAfterFinished is how long after its end the job is deleted, in seconds. The containers stay in the pods. When omitted, it
	// is 1800.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// EphemeralContainerTemplateSpec is what is added to a pod.
type EphemeralContainerTemplateSpec struct {
	// ephemeralContainers are the containers, at least 1 and at most 20. Their names have to be new in the pods: a pod that has an ephemeral
	// container with one of these names from somebody else is no target. The API server fills in what they leave out, as for all containers.
	// +required
	EphemeralContainers []corev1.EphemeralContainer `json:"ephemeralContainers" patchStrategy:"merge" patchMergeKey:"name"`
}

// EphemeralJobPhase is what a job is at, in one word.
type EphemeralJobPhase string

const (
	// EphemeralJobWaiting says that no pod is a target, or that no container has started yet.
	EphemeralJobWaiting EphemeralJobPhase = "Waiting"
	// EphemeralJobRunning says that containers run, or that some have ended and others are to follow.
	EphemeralJobRunning EphemeralJobPhase = "Running"
	// EphemeralJobSucceeded says that the containers have succeeded in all targets.
	EphemeralJobSucceeded EphemeralJobPhase = "Succeeded"
	// EphemeralJobFailed says that the job has ended because containers have failed or its deadline was over.
	EphemeralJobFailed EphemeralJobPhase = "Failed"
	// EphemeralJobPaused says that spec.paused is true.
	EphemeralJobPaused EphemeralJobPhase = "Paused"
	// EphemeralJobError says that the stored spec cannot work.
	EphemeralJobError EphemeralJobPhase = "Error"
	// EphemeralJobUnknown was written by OpenKruise where this operator writes Running or Waiting.
	EphemeralJobUnknown EphemeralJobPhase = "Unknown"
)

// EphemeralJobStatus is how far a job has come.
type EphemeralJobStatus struct {
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions say what the job is doing, how it ended, and what stops it.
	// +optional
	// +listType=atomic
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:io.kubernetes.conditions"
	Conditions []EphemeralJobCondition `json:"conditions,omitempty"`
	// startTime is when the operator began to work on the job. The deadline counts from it.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when it ended.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// phase is Waiting, Running, Succeeded, Failed, Paused or Error.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Phase EphemeralJobPhase `json:"phase,omitempty"`
	// match is how many pods are targets.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Matches int32 `json:"match"`
	// running is in how many targets a container of the job runs.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Running int32 `json:"running"`
	// succeeded is in how many targets all containers have ended with exit code 0.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Succeeded int32 `json:"succeeded"`
	// waiting is to how many targets containers were added of which none runs, and none has failed.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Waiting int32 `json:"waiting"`
	// failed is in how many targets a container has failed, or to how many none could be added after several tries.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Failed int32 `json:"failed"`
}

// EphemeralJobCondition is one statement about a job.
type EphemeralJobCondition struct {
	// type is what it is about.
	Type string `json:"type"`
	// status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// lastProbeTime is written by OpenKruise only.
	// +optional
	// +nullable
	LastProbeTime *metav1.Time `json:"lastProbeTime,omitempty"`
	// lastTransitionTime is since when the status is as it is.
	// +optional
	// +nullable
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// reason is why, in one word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is why, in a sentence.
	// +optional
	Message string `json:"message,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=ephemeraljobs,scope=Namespaced,shortName=ejob,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="EphemeralJob",order=13,resources={{Pod,v1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="STATUS",type="string",JSONPath=".status.phase",description="What the job is at."
// +kubebuilder:printcolumn:name="MATCH",type="integer",JSONPath=".status.match",description="The number of pods that are targets."
// +kubebuilder:printcolumn:name="SUCCEED",type="integer",JSONPath=".status.succeeded",description="The number of targets that succeeded."
// +kubebuilder:printcolumn:name="FAILED",type="integer",JSONPath=".status.failed",description="The number of targets that failed."
// +kubebuilder:printcolumn:name="RUNNING",type="integer",JSONPath=".status.running",description="The number of targets in which a container runs."
// +kubebuilder:printcolumn:name="WAITING",type="integer",JSONPath=".status.waiting",description="The number of targets in which no container has started yet."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."
// +kubebuilder:selectablefield:JSONPath=.status.phase

// EphemeralJob adds ephemeral containers to pods that run, and waits for their end.
type EphemeralJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is added, and to which pods.
	Spec EphemeralJobSpec `json:"spec,omitempty"`
	// status is how far the job has come.
	Status EphemeralJobStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// EphemeralJobList is a list of EphemeralJobs.
type EphemeralJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EphemeralJob `json:"items"`
}
