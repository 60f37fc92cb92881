// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// FlockSpec is what is wanted.
type FlockSpec struct {
	// image is what its pods run.
	Image string `json:"image"`
	// replicas is how many there are.
	Replicas int32 `json:"replicas"`
}

// FlockStatus is what there is.
type FlockStatus struct {
	// count is how many there are.
	Count int32 `json:"count"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=flocks,scope=Namespaced

// Flock is some pods.
type Flock struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	Spec FlockSpec `json:"spec,omitempty"`
	// status is what there is.
	Status FlockStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// FlockList is a list of Flocks.
type FlockList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Flock `json:"items"`
}
