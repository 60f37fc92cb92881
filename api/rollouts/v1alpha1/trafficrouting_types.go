// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
)

// TrafficRoutingSpec says how requests are routed while a Rollout has a release.
type TrafficRoutingSpec struct {
	// objectRef names routes of one Service. That stays as it is, and there is no second one.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ObjectRef []v1beta1.TrafficRoutingRef `json:"objectRef"`
	// strategy says which requests are for new versions.
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Strategy TrafficStrategy `json:"strategy"`
}

// TrafficStrategy says which requests are for new versions. The name of its own keeps generators from taking it for that of v1beta1.
type TrafficStrategy struct {
	// weight is the share of requests in percent, from 0 to 100. With matches it is about the requests that do not match. Routes of the
	// Gateway API need two Services for it, so they refuse it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Weight *int32 `json:"weight,omitempty"`
	// requestHeaderModifier changes the headers of these requests, so that the next Service can tell them.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	RequestHeaderModifier *v1beta1.HTTPHeaderFilter `json:"requestHeaderModifier,omitempty"`
	// matches choose requests; one of them has to match.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Matches []HTTPRouteMatch `json:"matches,omitempty"`
}

// TrafficRoutingPhase is where a TrafficRouting is.
type TrafficRoutingPhase string

// All phases of a TrafficRouting.
const (
	// TrafficRoutingPhaseInitial: nobody has looked at it yet.
	TrafficRoutingPhaseInitial TrafficRoutingPhase = "Initial"
	// TrafficRoutingPhaseHealthy: no Rollout uses it.
	TrafficRoutingPhaseHealthy TrafficRoutingPhase = "Healthy"
	// TrafficRoutingPhaseProgressing: a Rollout uses it, and requests are routed.
	TrafficRoutingPhaseProgressing TrafficRoutingPhase = "Progressing"
	// TrafficRoutingPhaseFinalizing: no Rollout uses it any more, and routes are set back.
	TrafficRoutingPhaseFinalizing TrafficRoutingPhase = "Finalizing"
	// TrafficRoutingPhaseTerminating: it is being deleted, and routes are set back.
	TrafficRoutingPhaseTerminating TrafficRoutingPhase = "Terminating"
)

// Condition types of a TrafficRouting.
const (
	// TrafficRoutingReconciling is True while routes are changed.
	TrafficRoutingReconciling = "Reconciling"
	// TrafficRoutingStalled is True when it needs you. Its reasons beside those of all kinds are NotRouted and RequestFailed.
	TrafficRoutingStalled = "Stalled"
)

// Reasons of these conditions, beside the phases, and of events.
const (
	// ReasonRouted: routes are as the Rollouts need them.
	ReasonRouted = "Routed"
	// ReasonReturned: routes are as before, and no Rollout uses them.
	ReasonReturned = "Returned"
)

// TrafficRoutingStatus says where routes are.
type TrafficRoutingStatus struct {
	// observedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is where the TrafficRouting is.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Phase TrafficRoutingPhase `json:"phase,omitempty"`
	// message says it in words.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Message string `json:"message,omitempty"`
	// conditions say what goes on and what holds it up.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:io.kubernetes.conditions"
	Conditions []v1beta1.RolloutCondition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=trafficroutings,scope=Namespaced,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="TrafficRouting",order=40,resources={{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="STATUS",type="string",JSONPath=".status.phase",description="Where the TrafficRouting is."
// +kubebuilder:printcolumn:name="MESSAGE",type="string",JSONPath=".status.message",description="What it waits for."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."

// TrafficRouting routes requests while any of several Rollouts has a release.
type TrafficRouting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has the routes.
	Spec TrafficRoutingSpec `json:"spec"`
	// status says where they are.
	// +optional
	Status TrafficRoutingStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// TrafficRoutingList is a list of TrafficRoutings.
type TrafficRoutingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TrafficRouting `json:"items"`
}
