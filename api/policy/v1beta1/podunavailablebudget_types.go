// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// PodUnavailableBudgetSpec is which pods are protected, and how many of them may be unavailable.
type PodUnavailableBudgetSpec struct {
	// selector selects the pods by their labels, among those of the budget's namespace. It must not be empty. Exactly one of selector and
	// targetRef is given, and neither can be changed later.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:selector:core:v1:Pod"
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// targetRef names the workload whose pods are protected: any kind with the subresource scale, in the budget's namespace. A Deployment's pods are
	// those of its ReplicaSets.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	TargetReference *TargetReference `json:"targetRef,omitempty"`

	// maxUnavailable is how many pods may be unavailable, as a number or as a percentage of the total, rounded up. With 0 every protected operation is
	// denied. Exactly one of maxUnavailable and minAvailable is given. A change counts at once.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minAvailable is how many pods have to stay available, as a number or as a percentage of the total, rounded up. A change counts at once.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// protectOperations are the operations that are checked. When omitted, they are DELETE, UPDATE and EVICT. UPDATE needs the feature gate
	// PodUnavailableBudgetUpdateGate. RESIZE counts by itself with the feature gate InPlacePodVerticalScaling; without it, UPDATE includes it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ProtectOperations []PubOperation `json:"protectOperations,omitempty"`

	// protectTotalReplicas is how many pods there should be, in place of what the workloads of the pods say. Pods without a workload need it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ProtectTotalReplicas *int32 `json:"protectTotalReplicas,omitempty"`

	// ignoredPodSelector selects pods for which no operation is denied. They count as all others do. It must not be empty.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	IgnoredPodSelector *metav1.LabelSelector `json:"ignoredPodSelector,omitempty"`
}

// PubOperation is something done to a pod.
// +kubebuilder:validation:Enum=DELETE;UPDATE;EVICT;RESIZE
type PubOperation string

// The operations.
const (
	// PubDeleteOperation deletes a pod.
	PubDeleteOperation PubOperation = "DELETE"
	// PubUpdateOperation changes the spec of a pod, or adds a label that makes it unavailable.
	PubUpdateOperation PubOperation = "UPDATE"
	// PubEvictOperation evicts a pod.
	PubEvictOperation PubOperation = "EVICT"
	// PubResizeOperation changes CPU and memory of a pod without a restart.
	PubResizeOperation PubOperation = "RESIZE"
)

// TargetReference names a workload.
type TargetReference struct {
	// apiVersion is its group and version, such as apps.kruise.io/v1beta1.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// kind is its kind, such as CloneSet.
	// +optional
	Kind string `json:"kind,omitempty"`
	// name is its name.
	// +optional
	Name string `json:"name,omitempty"`
}

// PodUnavailableBudgetStatus is how much of the budget is left.
type PodUnavailableBudgetStatus struct {
	// observedGeneration is the generation of the spec that this status is about. Until it is that of the spec, protected operations are denied.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// disruptedPods are pods whose deletion or eviction was allowed and has not been seen yet, with the time. One that does not happen is given
	// back after 20 seconds.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	DisruptedPods map[string]metav1.Time `json:"disruptedPods,omitempty"`
	// unavailablePods are pods whose update was allowed, with the time. They count as unavailable for 10 seconds.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	UnavailablePods map[string]metav1.Time `json:"unavailablePods,omitempty"`
	// unavailableAllowed is how many more pods may become unavailable now.
	// +operator-sdk:csv:customresourcedefinitions:type=status
	UnavailableAllowed int32 `json:"unavailableAllowed"`
	// currentAvailable is how many pods are available: ready, not being updated, and not among disruptedPods and unavailablePods.
	// +operator-sdk:csv:customresourcedefinitions:type=status
	CurrentAvailable int32 `json:"currentAvailable"`
	// desiredAvailable is how many pods have to stay available.
	// +operator-sdk:csv:customresourcedefinitions:type=status
	DesiredAvailable int32 `json:"desiredAvailable"`
	// totalReplicas is how many pods there should be. It is -1 when the kind of the target has no replicas.
	// +operator-sdk:csv:customresourcedefinitions:type=status
	TotalReplicas int32 `json:"totalReplicas"`
	// conditions say whether the budget is in force, and what it lacks.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:io.kubernetes.conditions"
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=podunavailablebudgets,scope=Namespaced,shortName=pub,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="PodUnavailableBudget",order=32,resources={{Pod,v1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="ALLOWED",type="integer",JSONPath=".status.unavailableAllowed",description="The number of pods that may become unavailable now."
// +kubebuilder:printcolumn:name="CURRENT",type="integer",JSONPath=".status.currentAvailable",description="The number of pods that are available."
// +kubebuilder:printcolumn:name="DESIRED",type="integer",JSONPath=".status.desiredAvailable",description="The number of pods that have to stay available."
// +kubebuilder:printcolumn:name="TOTAL",type="integer",JSONPath=".status.totalReplicas",description="The number of pods that there should be."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."
// +kubebuilder:selectablefield:JSONPath=.spec.targetRef.name

// PodUnavailableBudget limits how many pods of an application are made unavailable at once, whoever does it: by deletion, eviction or update.
type PodUnavailableBudget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is which pods are protected, and how many of them may be unavailable.
	Spec PodUnavailableBudgetSpec `json:"spec,omitempty"`
	// status is how much of the budget is left.
	Status PodUnavailableBudgetStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// PodUnavailableBudgetList is a list of PodUnavailableBudgets.
type PodUnavailableBudgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodUnavailableBudget `json:"items"`
}
