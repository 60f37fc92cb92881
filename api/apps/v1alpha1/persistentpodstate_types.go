// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// PersistentPodStateSpec says what is remembered of the pods of a workload, and how new pods return to it.
type PersistentPodStateSpec struct {
	// targetRef is the workload. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed",reason="FieldValueForbidden"
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	TargetRef v1beta1.PersistentPodStateTargetRef `json:"targetRef"`
	// persistentPodAnnotations are annotations of the pods that are recorded in the status, at most 32.
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	PersistentPodAnnotations []v1beta1.PersistentPodAnnotation `json:"persistentPodAnnotations,omitempty"`
	// requiredPersistentTopology are the node labels that a new pod must find again. A value that no node has any more is left out.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	RequiredPersistentTopology *NodeTopologyTerm `json:"requiredPersistentTopology,omitempty"`
	// preferredPersistentTopology are the node labels that a new pod should find again, at most 32 terms.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	PreferredPersistentTopology []PreferredTopologyTerm `json:"preferredPersistentTopology,omitempty"`
	// persistentPodStateRetentionPolicy is WhenScaled, the default, or WhenDeleted: whether the place of a pod is forgotten when the
	// workload is scaled in.
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	// +optional
	PersistentPodStateRetentionPolicy v1beta1.PersistentPodStateRetentionPolicy `json:"persistentPodStateRetentionPolicy,omitempty"`
}

// NodeTopologyTerm are keys of node labels.
type NodeTopologyTerm struct {
	// nodeTopologyKeys are the keys, at most 32.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=317
	NodeTopologyKeys []string `json:"nodeTopologyKeys"`
}

// PreferredTopologyTerm is a preference for the nodes with the same labels as before.
type PreferredTopologyTerm struct {
	// weight of the preference, from 1 to 100.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`
	// preference are the keys.
	Preference NodeTopologyTerm `json:"preference"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=persistentpodstates,scope=Namespaced,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="PersistentPodState (v1alpha1)",order=35,resources={{StatefulSet,apps.kruise.io/v1beta1,""},{Pod,v1,""}}
// +kubebuilder:printcolumn:name="TARGET",type="string",JSONPath=".spec.targetRef.name",description="The name of the workload."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// PersistentPodState remembers where each pod of a workload was ready last, and makes new pods of the same name return there.
type PersistentPodState struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is remembered, and of which workload.
	// +kubebuilder:validation:XValidation:rule="has(self.requiredPersistentTopology) || (has(self.preferredPersistentTopology) && size(self.preferredPersistentTopology) > 0)",message="must have requiredPersistentTopology or preferredPersistentTopology"
	Spec PersistentPodStateSpec `json:"spec"`
	// status is what is remembered.
	Status v1beta1.PersistentPodStateStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// PersistentPodStateList is a list of PersistentPodStates.
type PersistentPodStateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PersistentPodState `json:"items"`
}
