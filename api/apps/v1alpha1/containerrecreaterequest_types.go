// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// Annotations by which v1alpha1 says what v1beta1 has in its status.
const (
	// AnnotationSyncContainerStatuses is status.containerStatusSnapshot, as JSON.
	AnnotationSyncContainerStatuses = "crr.apps.kruise.io/sync-container-statuses"
	// AnnotationUnreadyAcquired is the time of the condition PreRecreateGrace.
	AnnotationUnreadyAcquired = "crr.apps.kruise.io/unready-acquired"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=containerrecreaterequests,scope=Namespaced,shortName=crr,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="ContainerRecreateRequest (v1alpha1)",order=18,resources={{Pod,v1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="PHASE",type="string",JSONPath=".status.phase",description="How far the request is."
// +kubebuilder:printcolumn:name="POD",type="string",JSONPath=".spec.podName",description="The pod."
// +kubebuilder:printcolumn:name="NODE",type="string",JSONPath=".metadata.labels.crr\\.apps\\.kruise\\.io/node-name",description="The node of the pod."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="SUCCEEDED",type="string",JSONPath=".status.conditions[?(@.type=='Succeeded')].status",description="Whether all containers were restarted."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// ContainerRecreateRequest restarts containers of a running pod in place, once. The pod keeps its UID, node, address and volumes.
//
// Both versions have the same fields. Clients of OpenKruise's v1alpha1 find two of them in annotations, which are written for them.
type ContainerRecreateRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which containers of which pod are restarted.
	Spec v1beta1.ContainerRecreateRequestSpec `json:"spec,omitempty"`
	// status is what was last observed.
	Status v1beta1.ContainerRecreateRequestStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// ContainerRecreateRequestList is a list of ContainerRecreateRequests.
type ContainerRecreateRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ContainerRecreateRequest `json:"items"`
}
