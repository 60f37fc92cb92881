// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=broadcastjobs,scope=Namespaced,shortName=bcj,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="BroadcastJob (v1alpha1)",order=16,resources={{Pod,v1,""},{Node,v1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="Desired",type="integer",JSONPath=".status.desired",description="The number of nodes that fit, or have done their part."
// +kubebuilder:printcolumn:name="Active",type="integer",JSONPath=".status.active",description="The number of pods at work."
// +kubebuilder:printcolumn:name="Succeeded",type="integer",JSONPath=".status.succeeded",description="The number of nodes that succeeded."
// +kubebuilder:printcolumn:name="Failed",type="integer",JSONPath=".status.failed",description="The number of nodes that failed."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="Phase",type="string",priority=1,JSONPath=".status.phase",description="What the job is at."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// BroadcastJob runs a pod to completion on every node that fits.
//
// Both versions have the same schema, so that the API server drops nothing when it converts.
type BroadcastJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what runs, and on which nodes.
	Spec v1beta1.BroadcastJobSpec `json:"spec,omitempty"`
	// status is how far the job has come.
	Status v1beta1.BroadcastJobStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// BroadcastJobList is a list of BroadcastJobs.
type BroadcastJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BroadcastJob `json:"items"`
}
