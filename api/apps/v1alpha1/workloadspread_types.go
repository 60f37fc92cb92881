// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// WorkloadSpreadSpec says how the pods of a workload are divided among subsets.
type WorkloadSpreadSpec struct {
	// targetRef is the workload in the same namespace: a CloneSet, Deployment, ReplicaSet, Job, StatefulSet, or one of a kind that an administrator lists. It cannot be changed, but for its
	// version. A workload has one WorkloadSpread.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	TargetReference *v1beta1.TargetReference `json:"targetRef,omitempty"`

	// targetFilter limits which pods are managed, and says which fields of the workload are its number of pods.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	TargetFilter *v1beta1.TargetFilter `json:"targetFilter,omitempty"`

	// subsets are filled in this order. There are at least 1 and at most 100.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	// +kubebuilder:validation:MaxItems=100
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Subsets []WorkloadSpreadSubset `json:"subsets,omitempty" patchStrategy:"merge" patchMergeKey:"name"`

	// scheduleStrategy says what happens to pods that find no node.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ScheduleStrategy v1beta1.WorkloadSpreadScheduleStrategy `json:"scheduleStrategy,omitempty"`
}

// WorkloadSpreadSubset is one part of the pods.
type WorkloadSpreadSubset struct {
	// name is another one for each subset.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// requiredNodeSelectorTerm is added to each term of the required node affinity of a pod.
	// +optional
	RequiredNodeSelectorTerm *corev1.NodeSelectorTerm `json:"requiredNodeSelectorTerm,omitempty"`

	// preferredNodeSelectorTerms are added to the preferred node affinity of a pod.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	PreferredNodeSelectorTerms []corev1.PreferredSchedulingTerm `json:"preferredNodeSelectorTerms,omitempty"`

	// tolerations are added to those of a pod.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// maxReplicas is how many pods the subset may have of each version: a number, or a percentage of the workload's pods, rounded up. All subsets
	// use one of the two. Percentages add up to at most 100%, and to exactly that when the last subset has one. A StatefulSet needs numbers.
	// When omitted, there is no limit.
	// +optional
	MaxReplicas *intstr.IntOrString `json:"maxReplicas,omitempty"`

	// patch is a strategic merge patch of the new pods.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Patch runtime.RawExtension `json:"patch,omitempty"`
}

// WorkloadSpreadStatus says how pods are divided.
type WorkloadSpreadStatus struct {
	// observedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// subsetStatuses are about the pods of all versions.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	SubsetStatuses []WorkloadSpreadSubsetStatus `json:"subsetStatuses,omitempty"`
	// versionedSubsetStatuses are about the pods of each version.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	VersionedSubsetStatuses map[string][]WorkloadSpreadSubsetStatus `json:"versionedSubsetStatuses,omitempty"`
	// conditions say whether new pods get subsets, and what keeps them from that.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:io.kubernetes.conditions"
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WorkloadSpreadSubsetStatus is about one subset.
type WorkloadSpreadSubsetStatus struct {
	// name is that of the subset.
	Name string `json:"name"`
	// conditions say whether the subset has room on nodes. They are there while pods are rescheduled.
	// +optional
	Conditions []WorkloadSpreadSubsetCondition `json:"conditions,omitempty"`
	// replicas is how many pods the subset has that are not over.
	// +optional
	Replicas int32 `json:"replicas"`
	// missingReplicas is how many more pods the subset may get; -1 is any number.
	// +optional
	MissingReplicas int32 `json:"missingReplicas"`
	// creatingPods are pods that were admitted and have not been seen yet, with the time.
	// +optional
	CreatingPods map[string]metav1.Time `json:"creatingPods,omitempty"`
	// deletingPods are pods whose deletion was admitted and has not been seen yet. Only OpenKruise writes them.
	// +optional
	DeletingPods map[string]metav1.Time `json:"deletingPods,omitempty"`
}

// WorkloadSpreadSubsetCondition is a condition of a subset.
type WorkloadSpreadSubsetCondition struct {
	// type is what it is about.
	Type string `json:"type"`
	// status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// lastTransitionTime is when the status changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// reason says in one word why.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says so in a sentence.
	// +optional
	Message string `json:"message,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=workloadspreads,scope=Namespaced,shortName=ws,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="WorkloadSpread (v1alpha1)",order=29,resources={{Pod,v1,""}}
// +kubebuilder:printcolumn:name="WorkloadName",type="string",JSONPath=".spec.targetRef.name",description="The workload with the pods."
// +kubebuilder:printcolumn:name="WorkloadKind",type="string",JSONPath=".spec.targetRef.kind",description="Its kind."
// +kubebuilder:printcolumn:name="Adaptive",type="string",JSONPath=".spec.scheduleStrategy.type",description="Whether subsets without room on nodes are given up."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// WorkloadSpread divides the pods of a workload among subsets, such as zones or kinds of nodes. Pods get their subset when they are created. When
// the workload shrinks, pods beyond the limits of their subset go first.
type WorkloadSpread struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how the pods are divided.
	Spec WorkloadSpreadSpec `json:"spec"`
	// status says how they are divided now.
	// +optional
	Status WorkloadSpreadStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// WorkloadSpreadList is a list of WorkloadSpreads.
type WorkloadSpreadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkloadSpread `json:"items"`
}
