// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PersistentPodStateSpec says what is remembered of the pods of a workload, and how new pods return to it.
type PersistentPodStateSpec struct {
	// targetRef is the workload. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed",reason="FieldValueForbidden"
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	TargetRef PersistentPodStateTargetRef `json:"targetRef"`
	// persistentPodAnnotations are annotations of the pods that are recorded in the status, at most 32.
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	PersistentPodAnnotations []PersistentPodAnnotation `json:"persistentPodAnnotations,omitempty"`
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
	PersistentPodStateRetentionPolicy PersistentPodStateRetentionPolicy `json:"persistentPodStateRetentionPolicy,omitempty"`
}

// NodeTopologyTerm are keys of node labels.
type NodeTopologyTerm struct {
	// keys are the keys, at most 32.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=317
	Keys []string `json:"keys"`
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

// PersistentPodStateTargetRef names the workload.
type PersistentPodStateTargetRef struct {
	// apiVersion of the workload. Its group counts; the version does not.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`
	// kind is StatefulSet, or one listed in the ConfigMap kruise-configuration.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// name of the workload, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// PersistentPodAnnotation is an annotation to record.
type PersistentPodAnnotation struct {
	// key of the annotation.
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`
}

// PersistentPodStateRetentionPolicy says when the place of a pod is forgotten.
// +kubebuilder:validation:Enum=WhenScaled;WhenDeleted
type PersistentPodStateRetentionPolicy string

const (
	// RetainUntilScaled forgets the place of a pod when scaling in has removed it.
	RetainUntilScaled PersistentPodStateRetentionPolicy = "WhenScaled"
	// RetainUntilDeleted forgets a place only when the workload or the PersistentPodState is deleted.
	RetainUntilDeleted PersistentPodStateRetentionPolicy = "WhenDeleted"
)

// PersistentPodStateStatus is what is remembered.
type PersistentPodStateStatus struct {
	// observedGeneration is the generation of the spec that the status is about.
	ObservedGeneration int64 `json:"observedGeneration"`
	// podStates are the places by the name of the pod: where each was ready last.
	// +optional
	PodStates map[string]PodState `json:"podStates,omitempty"`
	// conditions say what keeps pods from returning to their places. OpenKruise has none.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:io.kubernetes.conditions"
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PodState is the place of one pod.
type PodState struct {
	// nodeName is the node on which the pod was ready last.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// nodeTopologyLabels are the labels of that node, for the keys of the spec.
	// +optional
	NodeTopologyLabels map[string]string `json:"nodeTopologyLabels,omitempty"`
	// annotations of the pod, for the keys in spec.persistentPodAnnotations. They are recorded, and not given to new pods.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=persistentpodstates,scope=Namespaced,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="PersistentPodState",order=34,resources={{StatefulSet,apps.kruise.io/v1beta1,""},{Pod,v1,""}}
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
	Status PersistentPodStateStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// PersistentPodStateList is a list of PersistentPodStates.
type PersistentPodStateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PersistentPodState `json:"items"`
}
