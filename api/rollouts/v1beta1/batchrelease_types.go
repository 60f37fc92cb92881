// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// BatchReleaseSpec is what a Rollout orders.
type BatchReleaseSpec struct {
	// workloadRef is the workload in the same namespace.
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	WorkloadRef ObjectRef `json:"workloadRef"`
	// releasePlan has the batches.
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ReleasePlan ReleasePlan `json:"releasePlan"`
}

// ReleasePlan has the batches of a release.
type ReleasePlan struct {
	// batches are the steps of the Rollout.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Batches []ReleaseBatch `json:"batches,omitempty"`
	// batchPartition is the highest batch that may begin, from 0. When omitted, the workload gets its own strategy back.
	// +optional
	// +kubebuilder:validation:Minimum=0
	BatchPartition *int32 `json:"batchPartition,omitempty"`
	// rolloutID is the label of pods of the release.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	RolloutID string `json:"rolloutID,omitempty"`
	// failureThreshold is how many updated pods need not be ready.
	// +optional
	// +kubebuilder:validation:XIntOrString
	FailureThreshold *intstr.IntOrString `json:"failureThreshold,omitempty"`
	// progressDeadlineSeconds is how long a batch may make no progress before the condition Stalled tells. Default: that of a Deployment, else 600.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
	// finalizingPolicy is Immediate, or WaitResume to wait for the pods.
	// +optional
	FinalizingPolicy FinalizingPolicyType `json:"finalizingPolicy,omitempty"`
	// patchPodTemplateMetadata is for the pods of a canary Deployment.
	// +optional
	PatchPodTemplateMetadata *PatchPodTemplateMetadata `json:"patchPodTemplateMetadata,omitempty"`
	// rollingStyle is Partition, Canary or BlueGreen.
	// +optional
	RollingStyle RollingStyleType `json:"rollingStyle,omitempty"`
	// enableExtraWorkloadForCanary is that of the Rollout.
	// +optional
	EnableExtraWorkloadForCanary bool `json:"enableExtraWorkloadForCanary"`
}

// ReleaseBatch is one batch.
type ReleaseBatch struct {
	// canaryReplicas is how many pods have the new version after the batch.
	// +kubebuilder:validation:XIntOrString
	CanaryReplicas intstr.IntOrString `json:"canaryReplicas"`
}

// FinalizingPolicyType says whether the end of a release waits for pods.
// +kubebuilder:validation:MaxLength=16
type FinalizingPolicyType string

const (
	// WaitResumeFinalizingPolicyType waits until all pods are updated and ready.
	WaitResumeFinalizingPolicyType FinalizingPolicyType = "WaitResume"
	// ImmediateFinalizingPolicyType does not wait.
	ImmediateFinalizingPolicyType FinalizingPolicyType = "Immediate"
)

// RollingStyleType says how new pods come about.
// +kubebuilder:validation:MaxLength=16
type RollingStyleType string

const (
	// PartitionRollingStyle replaces pods of the workload.
	PartitionRollingStyle RollingStyleType = "Partition"
	// CanaryRollingStyle adds pods in a Deployment beside the workload.
	CanaryRollingStyle RollingStyleType = "Canary"
	// BlueGreenRollingStyle adds pods in the workload.
	BlueGreenRollingStyle RollingStyleType = "BlueGreen"
)

// BatchReleasePhase is where a BatchRelease is.
type BatchReleasePhase string

// All phases of a BatchRelease.
const (
	// BatchReleasePhasePreparing: the workload is being taken over.
	BatchReleasePhasePreparing BatchReleasePhase = "Preparing"
	// BatchReleasePhaseProgressing: batches go on.
	BatchReleasePhaseProgressing BatchReleasePhase = "Progressing"
	// BatchReleasePhaseFinalizing: the workload gets its own strategy back.
	BatchReleasePhaseFinalizing BatchReleasePhase = "Finalizing"
	// BatchReleasePhaseCompleted: it has it.
	BatchReleasePhaseCompleted BatchReleasePhase = "Completed"
)

// BatchState is where a batch is.
type BatchState string

// All states of a batch.
const (
	// BatchStateUpgrading: pods get the new version.
	BatchStateUpgrading BatchState = "Upgrading"
	// BatchStateVerifying: pods have it, and become ready.
	BatchStateVerifying BatchState = "Verifying"
	// BatchStateReady: enough of them are ready.
	BatchStateReady BatchState = "Ready"
)

// BatchReleaseStatus is the answer to the order.
type BatchReleaseStatus struct {
	// conditions say what goes on and what holds it up.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []RolloutCondition `json:"conditions,omitempty"`
	// canaryStatus is about the batch.
	// +optional
	CanaryStatus BatchReleaseCanaryStatus `json:"canaryStatus,omitempty"`
	// stableRevision is the version from before the release.
	// +optional
	StableRevision string `json:"stableRevision,omitempty"`
	// updateRevision is the new version.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`
	// observedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// observedRolloutID is the rolloutID that the status is about.
	// +optional
	ObservedRolloutID string `json:"observedRolloutID,omitempty"`
	// observedWorkloadReplicas is the size of the workload.
	// +optional
	ObservedWorkloadReplicas int32 `json:"observedWorkloadReplicas"`
	// observedReleasePlanHash stands for the plan that the status is about.
	// +optional
	ObservedReleasePlanHash string `json:"observedReleasePlanHash,omitempty"`
	// collisionCount is not used.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// phase is where the BatchRelease is.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Phase BatchReleasePhase `json:"phase,omitempty"`
	// message names pods that hold up the batch, and why.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Message string `json:"message,omitempty"`
}

// BatchReleaseCanaryStatus is about the present batch.
type BatchReleaseCanaryStatus struct {
	// batchState is where the batch is.
	// +optional
	CurrentBatchState BatchState `json:"batchState,omitempty"`
	// currentBatch is its number, from 0.
	// +optional
	CurrentBatch int32 `json:"currentBatch"`
	// batchReadyTime is when it became ready.
	// +optional
	BatchReadyTime *metav1.Time `json:"batchReadyTime,omitempty"`
	// updatedReplicas is how many pods have the new version.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`
	// updatedReadyReplicas is how many of them are ready.
	// +optional
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas,omitempty"`
	// noNeedUpdateReplicas is how many pods had the version before the release, when that goes back in batches.
	// +optional
	NoNeedUpdateReplicas *int32 `json:"noNeedUpdateReplicas,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=batchreleases,scope=Namespaced,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="BatchRelease",order=38,resources={{Pod,v1,""}}
// +kubebuilder:printcolumn:name="KIND",type="string",JSONPath=".spec.workloadRef.kind",description="The kind of the workload."
// +kubebuilder:printcolumn:name="PHASE",type="string",JSONPath=".status.phase",description="Where the BatchRelease is."
// +kubebuilder:printcolumn:name="BATCH",type="integer",JSONPath=".status.canaryStatus.currentBatch",description="The present batch, from 0."
// +kubebuilder:printcolumn:name="BATCH-STATE",type="string",JSONPath=".status.canaryStatus.batchState",description="Where the batch is."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."

// BatchRelease is how a Rollout has pods of a workload replaced. A Rollout makes one with its name; do not write it yourself.
type BatchRelease struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the order.
	Spec BatchReleaseSpec `json:"spec"`
	// status is the answer.
	// +optional
	Status BatchReleaseStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// BatchReleaseList is a list of BatchReleases.
type BatchReleaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BatchRelease `json:"items"`
}
