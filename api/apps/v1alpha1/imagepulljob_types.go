// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=imagepulljobs,scope=Namespaced,shortName=ipj,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="ImagePullJob (v1alpha1)",order=20,resources={{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="TOTAL",type="integer",JSONPath=".status.desired",description="The number of nodes that are chosen."
// +kubebuilder:printcolumn:name="ACTIVE",type="integer",JSONPath=".status.active",description="The number of nodes that pull."
// +kubebuilder:printcolumn:name="SUCCEED",type="integer",JSONPath=".status.succeeded",description="The number of nodes that have the image."
// +kubebuilder:printcolumn:name="FAILED",type="integer",JSONPath=".status.failed",description="The number of nodes that have given up."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="MESSAGE",type="string",JSONPath=".status.message",description="How far the job is."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// ImagePullJob pulls one image to nodes ahead of need.
//
// Both versions have the same schema, so that the API server drops nothing when it converts.
type ImagePullJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what to pull, and where.
	// +kubebuilder:validation:XValidation:rule="has(self.pullSecrets) ? (has(oldSelf.pullSecrets) ? self.pullSecrets == oldSelf.pullSecrets : size(self.pullSecrets) == 0) : (!has(oldSelf.pullSecrets) || size(oldSelf.pullSecrets) == 0)",message="cannot be changed once the job exists",reason=FieldValueForbidden,fieldPath=".pullSecrets"
	// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.podSelector)",message="selector and podSelector cannot be combined"
	// +kubebuilder:validation:XValidation:rule="!has(self.completionPolicy) || !has(self.completionPolicy.activeDeadlineSeconds) || self.completionPolicy.activeDeadlineSeconds >= (has(self.pullPolicy) && has(self.pullPolicy.timeoutSeconds) ? self.pullPolicy.timeoutSeconds : 600)",message="completionPolicy.activeDeadlineSeconds must be at least pullPolicy.timeoutSeconds (600 when omitted)"
	Spec v1beta1.ImagePullJobSpec `json:"spec,omitempty"`
	// status is how far the job has come.
	Status v1beta1.ImagePullJobStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// ImagePullJobList is a list of ImagePullJobs.
type ImagePullJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ImagePullJob `json:"items"`
}
