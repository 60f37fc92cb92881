// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
)

// PodUnavailableBudgetSpec is which pods are protected, and how many of them may be unavailable. Operations and total are annotations in this version:
// kruise.io/pub-protect-operations and pub.kruise.io/protect-total-replicas.
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
	TargetReference *v1beta1.TargetReference `json:"targetRef,omitempty"`

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
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=podunavailablebudgets,scope=Namespaced,shortName=pub,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="PodUnavailableBudget (v1alpha1)",order=33,resources={{Pod,v1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="ALLOWED",type="integer",JSONPath=".status.unavailableAllowed",description="The number of pods that may become unavailable now."
// +kubebuilder:printcolumn:name="CURRENT",type="integer",JSONPath=".status.currentAvailable",description="The number of pods that are available."
// +kubebuilder:printcolumn:name="DESIRED",type="integer",JSONPath=".status.desiredAvailable",description="The number of pods that have to stay available."
// +kubebuilder:printcolumn:name="TOTAL",type="integer",JSONPath=".status.totalReplicas",description="The number of pods that there should be."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// PodUnavailableBudget limits how many pods of an application are made unavailable at once, whoever does it: by deletion, eviction or update.
type PodUnavailableBudget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is which pods are protected, and how many of them may be unavailable.
	Spec PodUnavailableBudgetSpec `json:"spec,omitempty"`
	// status is how much of the budget is left.
	Status v1beta1.PodUnavailableBudgetStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// PodUnavailableBudgetList is a list of PodUnavailableBudgets.
type PodUnavailableBudgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodUnavailableBudget `json:"items"`
}
