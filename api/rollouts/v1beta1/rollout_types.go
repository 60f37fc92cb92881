// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RolloutSpec says in which steps a workload gets a new version.
type RolloutSpec struct {
	// workloadRef is the workload in the same namespace. A workload has one Rollout.
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	WorkloadRef ObjectRef `json:"workloadRef"`
	// strategy has the steps.
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Strategy RolloutStrategy `json:"strategy"`
	// disabled ends the control. A release in the middle then goes on to the new version without steps. False when omitted.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Disabled bool `json:"disabled,omitempty"`
}

// ObjectRef names a workload.
type ObjectRef struct {
	// apiVersion is the group and version of the workload.
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`
	// kind is that of the workload: Deployment, StatefulSet, DaemonSet or CloneSet.
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// name is that of the workload.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// RolloutStrategy has one of canary and blueGreen.
type RolloutStrategy struct {
	// paused stops at the present step. Pods that are being updated go on. False when omitted.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Paused bool `json:"paused,omitempty"`
	// canary replaces pods of the workload step by step, or adds pods in a Deployment beside it.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Canary *CanaryStrategy `json:"canary,omitempty"`
	// blueGreen starts new pods of a Deployment or CloneSet beside all old ones, which go at the end.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	BlueGreen *BlueGreenStrategy `json:"blueGreen,omitempty"`
}

// CanaryStrategy has the steps of a release.
type CanaryStrategy struct {
	// steps are taken in this order. There are 1 to 50.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Steps []CanaryStep `json:"steps,omitempty"`
	// trafficRoutings say how requests get to the new version. All of them change in each step.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	TrafficRoutings []TrafficRoutingRef `json:"trafficRoutings,omitempty"`
	// failureThreshold is how many updated pods need not be ready: a number, or a percentage of the updated pods, rounded up. 0 when omitted.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	FailureThreshold *intstr.IntOrString `json:"failureThreshold,omitempty"`
	// patchPodTemplateMetadata is for the pods of the Deployment that enableExtraWorkloadForCanary makes.
	// +optional
	PatchPodTemplateMetadata *PatchPodTemplateMetadata `json:"patchPodTemplateMetadata,omitempty"`
	// enableExtraWorkloadForCanary puts new pods into a Deployment of their own until the release ends. Other kinds than Deployments are updated
	// in place all the same. False when omitted.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	EnableExtraWorkloadForCanary bool `json:"enableExtraWorkloadForCanary,omitempty"`
	// trafficRoutingRef names a TrafficRouting: a release uses it from its beginning to its end. The annotation
	// rollouts.kruise.io/trafficrouting does the same.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TrafficRoutingRef string `json:"trafficRoutingRef,omitempty"`
	// disableGenerateCanaryService makes no Service for new pods: routes tell versions apart by the Service of the user alone. False
	// when omitted.
	// +optional
	DisableGenerateCanaryService bool `json:"disableGenerateCanaryService,omitempty"`
}

// BlueGreenStrategy has the steps of a release with two full sets of pods.
type BlueGreenStrategy struct {
	// steps are taken in this order. There are 1 to 50. After the last one somebody has to approve, too, unless it has a pause.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Steps []CanaryStep `json:"steps,omitempty"`
	// trafficRoutings say how requests get to the new version.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	TrafficRoutings []TrafficRoutingRef `json:"trafficRoutings,omitempty"`
	// failureThreshold has no effect.
	// +optional
	// +kubebuilder:validation:XIntOrString
	FailureThreshold *intstr.IntOrString `json:"failureThreshold,omitempty"`
	// trafficRoutingRef names a TrafficRouting.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TrafficRoutingRef string `json:"trafficRoutingRef,omitempty"`
	// disableGenerateCanaryService makes no Service for new pods.
	// +optional
	DisableGenerateCanaryService bool `json:"disableGenerateCanaryService,omitempty"`
}

// CanaryStep is one step of a release.
type CanaryStep struct {
	// replicas is how many pods of the workload have the new version after the step: a number, or a percentage, rounded up. It never gets
	// smaller from step to step.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Replicas *intstr.IntOrString `json:"replicas,omitempty"`
	// pause is what comes after the step. When omitted, somebody has to approve.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Pause RolloutPause `json:"pause,omitempty"`
	// progressDeadlineSeconds is how long the step may go on without another ready pod of the new version, and how long its requests may take to
	// be routed. After that the condition Stalled says which pods or routes hold it up. When omitted, there is no deadline.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	TrafficRoutingStrategy `json:",inline"`
}

// RolloutPause says how long a step waits.
type RolloutPause struct {
	// duration is in seconds. When omitted, somebody has to approve; 0 goes on at once.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Duration *int32 `json:"duration,omitempty"`
}

// PatchPodTemplateMetadata is merged into the metadata of a template.
type PatchPodTemplateMetadata struct {
	// labels are set.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	Labels map[string]string `json:"labels,omitempty"`
	// annotations are set.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	Annotations map[string]string `json:"annotations,omitempty"`
}

// RolloutPhase is where a Rollout is.
type RolloutPhase string

// All phases of a Rollout.
const (
	// RolloutPhaseInitial: the workload is not there.
	RolloutPhaseInitial RolloutPhase = "Initial"
	// RolloutPhaseHealthy: there is no release.
	RolloutPhaseHealthy RolloutPhase = "Healthy"
	// RolloutPhaseProgressing: a release goes on.
	RolloutPhaseProgressing RolloutPhase = "Progressing"
	// RolloutPhaseTerminating: the Rollout is being deleted.
	RolloutPhaseTerminating RolloutPhase = "Terminating"
	// RolloutPhaseDisabling: a release is ended because the Rollout was disabled.
	RolloutPhaseDisabling RolloutPhase = "Disabling"
	// RolloutPhaseDisabled: the Rollout does nothing.
	RolloutPhaseDisabled RolloutPhase = "Disabled"
)

// CanaryStepState is where a step is.
type CanaryStepState string

// All states of a step, in order.
const (
	// CanaryStepStateInit: the step has not begun.
	CanaryStepStateInit CanaryStepState = "BeforeStepUpgrade"
	// CanaryStepStateUpgrade: pods get the new version.
	CanaryStepStateUpgrade CanaryStepState = "StepUpgrade"
	// CanaryStepStateTrafficRouting: requests are routed.
	CanaryStepStateTrafficRouting CanaryStepState = "StepTrafficRouting"
	// CanaryStepStateMetricsAnalysis is passed through.
	CanaryStepStateMetricsAnalysis CanaryStepState = "StepMetricsAnalysis"
	// CanaryStepStatePaused: the step waits for a time, or for somebody.
	CanaryStepStatePaused CanaryStepState = "StepPaused"
	// CanaryStepStateReady: the next step may begin.
	CanaryStepStateReady CanaryStepState = "StepReady"
	// CanaryStepStateCompleted: all steps are done.
	CanaryStepStateCompleted CanaryStepState = "Completed"
)

// FinalisingStep is what is being done to end a release.
// +kubebuilder:validation:MaxLength=64
type FinalisingStep string

// The steps of ending a release without traffic.
const (
	// FinalisingStepResumeWorkload: the workload goes on by its own strategy.
	FinalisingStepResumeWorkload FinalisingStep = "ResumeWorkload"
	// FinalisingStepReleaseWorkloadControl: the BatchRelease is deleted.
	FinalisingStepReleaseWorkloadControl FinalisingStep = "ReleaseWorkloadControl"
	// FinalisingStepTypeEnd: nothing is left to do.
	FinalisingStepTypeEnd FinalisingStep = "END"
)

// RolloutStatus says where a release is.
type RolloutStatus struct {
	// observedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// canaryStatus is about the strategy canary.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	CanaryStatus *CanaryStatus `json:"canaryStatus,omitempty"`
	// blueGreenStatus is about the strategy blueGreen.
	// +optional
	BlueGreenStatus *BlueGreenStatus `json:"blueGreenStatus,omitempty"`
	// conditions say what goes on and what holds it up.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:io.kubernetes.conditions"
	Conditions []RolloutCondition `json:"conditions,omitempty"`
	// phase is where the Rollout is.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Phase RolloutPhase `json:"phase,omitempty"`
	// message says it in words.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Message string `json:"message,omitempty"`
	// currentStepIndex is that of the sub-status.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	CurrentStepIndex int32 `json:"currentStepIndex"`
	// currentStepState is that of the sub-status.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	CurrentStepState CanaryStepState `json:"currentStepState"`
}

// CommonStatus is the part that all strategies have.
type CommonStatus struct {
	// observedWorkloadGeneration is the generation of the workload that the status is about.
	// +optional
	ObservedWorkloadGeneration int64 `json:"observedWorkloadGeneration,omitempty"`
	// observedRolloutID is the rollout-id of the release.
	// +optional
	ObservedRolloutID string `json:"observedRolloutID,omitempty"`
	// rolloutHash stands for the plan that the status is about.
	// +optional
	RolloutHash string `json:"rolloutHash,omitempty"`
	// stableRevision is the version from before the release.
	// +optional
	StableRevision string `json:"stableRevision,omitempty"`
	// podTemplateHash is the label of new pods.
	// +optional
	PodTemplateHash string `json:"podTemplateHash"`
	// currentStepIndex is the number of the present step, from 1.
	// +optional
	CurrentStepIndex int32 `json:"currentStepIndex"`
	// nextStepIndex is the number of the next step; -1 is none. Set it to jump.
	// +optional
	NextStepIndex int32 `json:"nextStepIndex"`
	// finalisingStep is what is being done to end the release.
	// +optional
	FinalisingStep FinalisingStep `json:"finalisingStep"`
	// currentStepState is where the step is. Set it from StepPaused to StepReady to approve.
	// +optional
	CurrentStepState CanaryStepState `json:"currentStepState"`
	// message says in words what the step waits for.
	// +optional
	Message string `json:"message,omitempty"`
	// lastUpdateTime is when the state last changed.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
}

// CanaryStatus is about the strategy canary.
type CanaryStatus struct {
	CommonStatus `json:",inline"`
	// canaryRevision is the new version.
	// +optional
	CanaryRevision string `json:"canaryRevision,omitempty"`
	// canaryReplicas is how many pods have the new version.
	// +optional
	CanaryReplicas int32 `json:"canaryReplicas"`
	// canaryReadyReplicas is how many of them are ready.
	// +optional
	CanaryReadyReplicas int32 `json:"canaryReadyReplicas"`
}

// BlueGreenStatus is about the strategy blueGreen.
type BlueGreenStatus struct {
	CommonStatus `json:",inline"`
	// updatedRevision is the new version.
	// +optional
	UpdatedRevision string `json:"updatedRevision,omitempty"`
	// updatedReplicas is how many pods have the new version.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// updatedReadyReplicas is how many of them are ready.
	// +optional
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas"`
}

// RolloutCondition is a condition with the time of its last update.
type RolloutCondition struct {
	// type is what the condition is about.
	// +kubebuilder:validation:MaxLength=316
	Type string `json:"type"`
	// status is True, False or Unknown.
	Status metav1.ConditionStatus `json:"status"`
	// lastUpdateTime is when anything of the condition last changed.
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitempty"`
	// lastTransitionTime is when the status last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// reason is one word for why.
	Reason string `json:"reason"`
	// message says it in words.
	Message string `json:"message"`
}

// Condition types of a Rollout.
const (
	// RolloutConditionProgressing tells of the release that goes on, or of the last one.
	RolloutConditionProgressing = "Progressing"
	// RolloutConditionSucceeded is True after a release ended with the new version, and False after it was canceled.
	RolloutConditionSucceeded = "Succeeded"
	// RolloutConditionTerminating is there while the Rollout is being deleted.
	RolloutConditionTerminating = "Terminating"
	// RolloutConditionGuarded is True when the next change of the workload will be caught.
	RolloutConditionGuarded = "Guarded"
	// RolloutConditionStalled is True when the release needs you.
	RolloutConditionStalled = "Stalled"
)

// Reasons of these conditions.
const (
	// ReasonInitializing: a release begins.
	ReasonInitializing = "Initializing"
	// ReasonInRolling: steps are taken.
	ReasonInRolling = "InRolling"
	// ReasonPaused: the Rollout is paused.
	ReasonPaused = "Paused"
	// ReasonCancelling: the template was set back.
	ReasonCancelling = "Cancelling"
	// ReasonFinalising: all steps are done, and the workload gets its own strategy back.
	ReasonFinalising = "Finalising"
	// ReasonCompleted: the release is over.
	ReasonCompleted = "Completed"
	// ReasonInTerminating: the Rollout is being deleted.
	ReasonInTerminating = "InTerminating"
	// ReasonTakenOver: somebody took the workload out of control in the middle of a release.
	ReasonTakenOver = "TakenOver"
	// ReasonDeadlineExceeded: a step made no progress for too long.
	ReasonDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonRequestFailed: the API server refuses what the release needs.
	ReasonRequestFailed = "RequestFailed"
	// ReasonUnsupported: the workload has no batches as it is.
	ReasonUnsupported = "Unsupported"
	// ReasonNotRouted: a route or Service is not as the release needs it.
	ReasonNotRouted = "NotRouted"
	// ReasonInForce: the brake holds.
	ReasonInForce = "InForce"
	// ReasonRegistering: the brake is being set up.
	ReasonRegistering = "Registering"
	// ReasonNotRegistered: the API server does not take the brake.
	ReasonNotRegistered = "NotRegistered"
	// ReasonWorkloadNotFound: there is no workload.
	ReasonWorkloadNotFound = "WorkloadNotFound"
	// ReasonOtherRollout: the workload has an earlier Rollout.
	ReasonOtherRollout = "OtherRollout"
)

// Reasons of events beside these.
const (
	// ReasonCaughtLate: a change was held after it began.
	ReasonCaughtLate = "CaughtLate"
	// ReasonRouteCorrected: somebody else changed the share of the new version in a route.
	ReasonRouteCorrected = "RouteCorrected"
	// ReasonUncontrolled: a change was no release, since the rollout-id stayed.
	ReasonUncontrolled = "UncontrolledChange"
)

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=rollouts,scope=Namespaced,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="Rollout",order=36,resources={{BatchRelease,v1beta1,""}}
// +kubebuilder:printcolumn:name="STATUS",type="string",JSONPath=".status.phase",description="Where the Rollout is."
// +kubebuilder:printcolumn:name="CANARY_STEP",type="integer",JSONPath=".status.currentStepIndex",description="The present step."
// +kubebuilder:printcolumn:name="CANARY_STATE",type="string",JSONPath=".status.currentStepState",description="Where the step is."
// +kubebuilder:printcolumn:name="MESSAGE",type="string",JSONPath=".status.message",description="What it waits for."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."

// Rollout gives a workload its new versions in steps. The workload stays what it is.
type Rollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has the workload and the steps.
	Spec RolloutSpec `json:"spec"`
	// status says where the release is.
	// +optional
	Status RolloutStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// RolloutList is a list of Rollouts.
type RolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Rollout `json:"items"`
}
