// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AbacusSpec is what to count.
type AbacusSpec struct {
	// beads is how many beads each wire has.
	// +optional
	Beads []int32 `json:"beads,omitempty"`
}

// AbacusStatus is what was counted.
type AbacusStatus struct {
	// sum is the number of beads on all wires.
	Sum int32 `json:"sum"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=abaci,scope=Cluster

// Abacus counts beads.
type Abacus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what to count.
	Spec AbacusSpec `json:"spec,omitempty"`
	// status is what was counted.
	Status AbacusStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// AbacusList is a list of Abaci.
type AbacusList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Abacus `json:"items"`
}
