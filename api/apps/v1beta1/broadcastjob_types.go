// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// BroadcastJobSpec is what a BroadcastJob runs, and on which nodes.
type BroadcastJobSpec struct {
	// parallelism is how many pods may be active at the same time: a number, or a percentage of the desired nodes, rounded up and at least
	// 1. The number 0 starts no pod. Lowering it deletes no pod. When omitted, there is no limit.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Parallelism *intstr.IntOrString `json:"parallelism,omitempty"`

	// template is the pod that runs on every node that fits. Its restartPolicy has to be Never or OnFailure. A change affects new pods.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Template corev1.PodTemplateSpec `json:"template"`

	// completionPolicy says when the job is over. When omitted, its type is Always.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	CompletionPolicy BroadcastJobCompletionPolicy `json:"completionPolicy,omitempty"`

	// paused stops the creation and deletion of pods. Pods that run go on. The time of activeDeadlineSeconds still counts, but the job fails only
	// when paused is false again. When omitted, it is false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:booleanSwitch"
	Paused bool `json:"paused,omitempty"`

	// failurePolicy says what follows when a pod has failed. When omitted, its type is FailFast.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	FailurePolicy BroadcastJobFailurePolicy `json:"failurePolicy,omitempty"`
}

// BroadcastJobCompletionPolicyType says whether a job ends.
// +kubebuilder:validation:Enum="";Always;Never
type BroadcastJobCompletionPolicyType string

const (
	// BroadcastJobAlways ends the job when its pods on all nodes that fit have ended.
	BroadcastJobAlways BroadcastJobCompletionPolicyType = "Always"
	// BroadcastJobNever runs a pod on each node that joins or begins to fit, for as long as the job exists.
	BroadcastJobNever BroadcastJobCompletionPolicyType = "Never"
)

// BroadcastJobCompletionPolicy says when a job is over and when it is deleted.
type BroadcastJobCompletionPolicy struct {
	// type is Always, a job that ends, or Never, one that serves new nodes. When omitted, it is Always.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Always","urn:alm:descriptor:com.tectonic.ui:select:Never"}
	Type BroadcastJobCompletionPolicyType `json:"type,omitempty"`
	// activeDeadlineSeconds is how long the job may take from its start, in seconds. Pods that are active then are deleted, and the job has
	// failed. While the job is paused, nothing is deleted. It needs the type Always. When omitted, there is no limit.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
	// ttlSecondsAfterFinished is how long after its end the job is deleted with its pods, in seconds. It needs the type Always. When
	// omitted, the job is kept.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// BroadcastJobFailurePolicyType says what follows when a pod has failed.
// +kubebuilder:validation:Enum="";FailFast;Continue;Pause
type BroadcastJobFailurePolicyType string

const (
	// BroadcastJobFailFast deletes the active pods, and the job has failed.
	BroadcastJobFailFast BroadcastJobFailurePolicyType = "FailFast"
	// BroadcastJobContinue goes on with the other nodes.
	BroadcastJobContinue BroadcastJobFailurePolicyType = "Continue"
	// BroadcastJobPause starts no further pod until its user resumes the job by the annotation operator.kruise.io/resume.
	BroadcastJobPause BroadcastJobFailurePolicyType = "Pause"
)

// BroadcastJobFailurePolicy says what follows when a pod has failed.
type BroadcastJobFailurePolicy struct {
	// type is FailFast, Continue or Pause. When omitted, it is FailFast.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:FailFast","urn:alm:descriptor:com.tectonic.ui:select:Continue","urn:alm:descriptor:com.tectonic.ui:select:Pause"}
	Type BroadcastJobFailurePolicyType `json:"type,omitempty"`
	// restartLimit is how often the containers of one pod, added up, may restart before the pod counts as failed. It matters with
	// restartPolicy OnFailure. When omitted, it is 0: the first restart is a failure.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	RestartLimit int32 `json:"restartLimit,omitempty"`
}

// BroadcastJobTemplateSpec is a BroadcastJob to be created.
type BroadcastJobTemplateSpec struct {
	// metadata has the labels and annotations of the job.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is that of the job. Its completionPolicy.type cannot be Never.
	// +optional
	Spec BroadcastJobSpec `json:"spec,omitempty"`
}

// BroadcastJobPhase is what a job is at, in one word.
type BroadcastJobPhase string

const (
	// BroadcastJobRunning says that pods are started, or would be on nodes that fit.
	BroadcastJobRunning BroadcastJobPhase = "running"
	// BroadcastJobPaused says that no pod is started, because its user or its failure policy says so.
	BroadcastJobPaused BroadcastJobPhase = "paused"
	// BroadcastJobCompleted says that the pods on all desired nodes have ended.
	BroadcastJobCompleted BroadcastJobPhase = "completed"
	// BroadcastJobFailed says that the failure policy or the deadline has ended the job.
	BroadcastJobFailed BroadcastJobPhase = "failed"
)

// BroadcastJobStatus is how far a job has come.
type BroadcastJobStatus struct {
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions say what the job is doing, how it ended, and what stops it.
	// +optional
	// +listType=atomic
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:io.kubernetes.conditions"
	Conditions []BroadcastJobCondition `json:"conditions,omitempty"`
	// startTime is when the operator began to work on the job.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when it ended.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// active is how many pods are at work: neither ended, nor terminating, nor restarted too often.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Active int32 `json:"active"`
	// succeeded is how many nodes the pod has succeeded on.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Succeeded int32 `json:"succeeded"`
	// failed is how many nodes the pod has failed on, or was restarted too often, or was stopped by the deadline.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Failed int32 `json:"failed"`
	// desired is how many nodes fit, or have done their part already.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Desired int32 `json:"desired"`
	// phase is running, paused, completed or failed.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Phase BroadcastJobPhase `json:"phase,omitempty"`
	// finished remembers the nodes that have done their part, also when their pods are gone.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Finished *FinishedNodes `json:"finished,omitempty"`
}

// FinishedNodes are the nodes of the cluster that have done their part, each by a short hash of its name and UID: eight bytes in
// base64, sorted. A node that is created again under its name is another one.
type FinishedNodes struct {
	// succeeded are the nodes on which the pod has succeeded.
	// +optional
	Succeeded []byte `json:"succeeded,omitempty"`
	// failed are the nodes on which it has failed.
	// +optional
	Failed []byte `json:"failed,omitempty"`
	// failures is how many failures there were in all, on nodes that are gone, too.
	// +optional
	Failures int32 `json:"failures,omitempty"`
	// resumed is the value of the annotation operator.kruise.io/resume that was seen last.
	// +optional
	Resumed string `json:"resumed,omitempty"`
	// resumedFailures is what failures was when resumed last changed: these failures do not pause the job any more.
	// +optional
	ResumedFailures int32 `json:"resumedFailures,omitempty"`
}

// BroadcastJobCondition is one statement about a job.
type BroadcastJobCondition struct {
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
// +kubebuilder:resource:path=broadcastjobs,scope=Namespaced,shortName=bcj,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="BroadcastJob",order=15,resources={{Pod,v1,""},{Node,v1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="Desired",type="integer",JSONPath=".status.desired",description="The number of nodes that fit, or have done their part."
// +kubebuilder:printcolumn:name="Active",type="integer",JSONPath=".status.active",description="The number of pods at work."
// +kubebuilder:printcolumn:name="Succeeded",type="integer",JSONPath=".status.succeeded",description="The number of nodes that succeeded."
// +kubebuilder:printcolumn:name="Failed",type="integer",JSONPath=".status.failed",description="The number of nodes that failed."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="Phase",type="string",priority=1,JSONPath=".status.phase",description="What the job is at."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."
// +kubebuilder:selectablefield:JSONPath=.status.phase

// BroadcastJob runs a pod to completion on every node that fits.
type BroadcastJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what runs, and on which nodes.
	Spec BroadcastJobSpec `json:"spec,omitempty"`
	// status is how far the job has come.
	Status BroadcastJobStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// BroadcastJobList is a list of BroadcastJobs.
type BroadcastJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BroadcastJob `json:"items"`
}
