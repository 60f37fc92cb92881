// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodeimages,scope=Cluster,shortName=nimg
// +operator-sdk:csv:customresourcedefinitions:displayName="NodeImage (v1alpha1)",order=26,resources={{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="DESIRED",type="integer",JSONPath=".status.desired",description="The number of tags that should be pulled."
// +kubebuilder:printcolumn:name="PULLING",type="integer",JSONPath=".status.pulling",description="The number of tags that are being pulled."
// +kubebuilder:printcolumn:name="SUCCEED",type="integer",JSONPath=".status.succeeded",description="The number of tags that are pulled."
// +kubebuilder:printcolumn:name="FAILED",type="integer",JSONPath=".status.failed",description="The number of tags that were given up."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."

// NodeImage is the list of images that a node should pull, and what became of them. It has the name of its node.
//
// Both versions have the same schema, so that the API server drops nothing when it converts.
type NodeImage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what to pull.
	Spec v1beta1.NodeImageSpec `json:"spec,omitempty"`
	// status is what is pulled.
	Status v1beta1.NodeImageStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// NodeImageList is a list of NodeImages.
type NodeImageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeImage `json:"items"`
}
