// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=ephemeraljobs,scope=Namespaced,shortName=ejob,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="EphemeralJob (v1alpha1)",order=14,resources={{Pod,v1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="STATUS",type="string",JSONPath=".status.phase",description="What the job is at."
// +kubebuilder:printcolumn:name="MATCH",type="integer",JSONPath=".status.match",description="The number of pods that are targets."
// +kubebuilder:printcolumn:name="SUCCEED",type="integer",JSONPath=".status.succeeded",description="The number of targets that succeeded."
// +kubebuilder:printcolumn:name="FAILED",type="integer",JSONPath=".status.failed",description="The number of targets that failed."
// +kubebuilder:printcolumn:name="RUNNING",type="integer",JSONPath=".status.running",description="The number of targets in which a container runs."
// +kubebuilder:printcolumn:name="WAITING",type="integer",JSONPath=".status.waiting",description="The number of targets in which no container has started yet."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// EphemeralJob adds ephemeral containers to pods that run, and waits for their end.
//
// Both versions have the same schema, so that the API server drops nothing when it converts.
type EphemeralJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is added, and to which pods.
	Spec v1beta1.EphemeralJobSpec `json:"spec,omitempty"`
	// status is how far the job has come.
	Status v1beta1.EphemeralJobStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// EphemeralJobList is a list of EphemeralJobs.
type EphemeralJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EphemeralJob `json:"items"`
}
