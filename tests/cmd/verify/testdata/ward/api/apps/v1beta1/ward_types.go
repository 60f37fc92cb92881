// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WardSpec is what is wanted.
type WardSpec struct {
	// reason is what who deletes one reads.
	Reason string `json:"reason"`
}

// WardStatus is what there is.
type WardStatus struct {
	// count is how many there are.
	Count int32 `json:"count"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=wards,scope=Namespaced

// Ward keeps the labeled pods of its namespace from being deleted.
type Ward struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	Spec WardSpec `json:"spec,omitempty"`
	// status is what there is.
	Status WardStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// WardList is a list of Wards.
type WardList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Ward `json:"items"`
}
