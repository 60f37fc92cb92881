// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BatonSpec is what is wanted.
type BatonSpec struct {
	// workload is the name of the Deployment.
	Workload string `json:"workload"`
}

// BatonStatus is what there is.
type BatonStatus struct {
	// count is how many there are.
	Count int32 `json:"count"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=batons,scope=Namespaced

// Baton pauses a Deployment of others.
type Baton struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	Spec BatonSpec `json:"spec,omitempty"`
	// status is what there is.
	Status BatonStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// BatonList is a list of Batons.
type BatonList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Baton `json:"items"`
}
