// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=imagelistpulljobs,scope=Namespaced,shortName=ilpj,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="ImageListPullJob (v1alpha1)",order=22,resources={{ImagePullJob,apps.kruise.io/v1beta1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="TOTAL",type="integer",JSONPath=".status.desired",description="The number of images."
// +kubebuilder:printcolumn:name="SUCCEEDED",type="integer",JSONPath=".status.succeeded",description="The number of images that every node has."
// +kubebuilder:printcolumn:name="COMPLETED",type="integer",JSONPath=".status.completed",description="The number of images for which all nodes have reported a result."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// ImageListPullJob pulls several images to the same nodes ahead of need, by an ImagePullJob for each of them.
//
// Both versions have the same schema, so that the API server drops nothing when it converts.
type ImageListPullJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what to pull, and where.
	// +kubebuilder:validation:XValidation:rule="has(self.images) && size(self.images) >= 1 && size(self.images) <= 255",message="must have 1 to 255 images",fieldPath=".images"
	// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.podSelector)",message="selector and podSelector cannot be combined"
	Spec v1beta1.ImageListPullJobSpec `json:"spec,omitempty"`
	// status is how far the job has come.
	Status v1beta1.ImageListPullJobStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// ImageListPullJobList is a list of ImageListPullJobs.
type ImageListPullJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ImageListPullJob `json:"items"`
}
