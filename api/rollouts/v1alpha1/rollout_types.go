// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
)

// RolloutSpec says in which steps a workload gets a new version.
type RolloutSpec struct {
	// objectRef names the workload. A workload has one Rollout.
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ObjectRef WorkloadReference `json:"objectRef"`
	// strategy has the steps.
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Strategy RolloutStrategy `json:"strategy"`
	// rolloutID has no effect; the label rollouts.kruise.io/rollout-id of the workload has.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	DeprecatedRolloutID string `json:"rolloutID,omitempty"`
	// disabled ends the control. A release in the middle then goes on to the new version without steps. False when omitted.
	// +optional
	Disabled bool `json:"disabled,omitempty"`
}

// WorkloadReference names a workload. The name of its own keeps generators from taking it for ObjectRef of v1beta1.
type WorkloadReference struct {
	// workloadRef is the workload in the same namespace.
	// +optional
	WorkloadRef *v1beta1.ObjectRef `json:"workloadRef,omitempty"`
}

// RolloutStrategy has the steps. The annotation rollouts.kruise.io/rolling-style says how pods are replaced: "partition" replaces pods of the
// workload, any other value or none adds pods in a Deployment beside it.
type RolloutStrategy struct {
	// paused stops at the present step. Pods that are being updated go on. False when omitted.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// canary has the steps.
	// +optional
	Canary *CanaryStrategy `json:"canary,omitempty"`
}

// CanaryStrategy has the steps of a release.
type CanaryStrategy struct {
	// steps are taken in this order. There are 1 to 50.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Steps []CanaryStep `json:"steps,omitempty"`
	// trafficRoutings say how requests get to the new version. All of them change in each step.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	TrafficRoutings []v1beta1.TrafficRoutingRef `json:"trafficRoutings,omitempty"`
	// failureThreshold is how many updated pods need not be ready: a number, or a percentage of the updated pods, rounded up. 0 when omitted.
	// +optional
	// +kubebuilder:validation:XIntOrString
	FailureThreshold *intstr.IntOrString `json:"failureThreshold,omitempty"`
	// patchPodTemplateMetadata is for the pods of the Deployment that is made beside the workload.
	// +optional
	PatchPodTemplateMetadata *v1beta1.PatchPodTemplateMetadata `json:"patchPodTemplateMetadata,omitempty"`
	// disableGenerateCanaryService makes no Service for new pods.
	// +optional
	DisableGenerateCanaryService bool `json:"disableGenerateCanaryService,omitempty"`
}

// CanaryStep is one step of a release.
type CanaryStep struct {
	// weight is the share of requests for the new version in percent, and that of pods without replicas.
	// +optional
	Weight *int32 `json:"weight,omitempty"`
	// requestHeaderModifier changes the headers of requests for the new version. This version refuses it.
	// +optional
	RequestHeaderModifier *v1beta1.HTTPHeaderFilter `json:"requestHeaderModifier,omitempty"`
	// matches choose requests for the new version. This version refuses them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Matches []HTTPRouteMatch `json:"matches,omitempty"`
	// replicas is how many pods of the workload have the new version after the step: a number, or a percentage, rounded up. It is weight when
	// omitted.
	// +optional
	// +kubebuilder:validation:XIntOrString
	Replicas *intstr.IntOrString `json:"replicas,omitempty"`
	// pause is what comes after the step. When omitted, somebody has to approve.
	// +optional
	Pause v1beta1.RolloutPause `json:"pause,omitempty"`
}

// HTTPRouteMatch chooses requests.
type HTTPRouteMatch struct {
	// headers choose requests by headers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Headers []v1beta1.HTTPNamedMatch `json:"headers,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=rollouts,scope=Namespaced,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="Rollout (v1alpha1)",order=37,resources={{Pod,v1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="STATUS",type="string",JSONPath=".status.phase",description="Where the Rollout is."
// +kubebuilder:printcolumn:name="CANARY_STEP",type="integer",JSONPath=".status.canaryStatus.currentStepIndex",description="The present step."
// +kubebuilder:printcolumn:name="CANARY_STATE",type="string",JSONPath=".status.canaryStatus.currentStepState",description="Where the step is."
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
	Status v1beta1.RolloutStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// RolloutList is a list of Rollouts.
type RolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Rollout `json:"items"`
}
