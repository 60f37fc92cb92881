// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ResourceDistributionSpec says what is copied, and to which namespaces.
type ResourceDistributionSpec struct {
	// resource is the ConfigMap or Secret of version v1 to copy, with all its fields. Its name and kind cannot be changed later. Of its metadata,
	// only name, labels, annotations and finalizers are copied. A Secret in it is stored as plain text of this object.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:EmbeddedResource
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Resource runtime.RawExtension `json:"resource"`
	// targets are the namespaces that get a copy. Copies in other namespaces are deleted.
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Targets ResourceDistributionTargets `json:"targets"`
}

// ResourceDistributionTargets are the namespaces allNamespaces, includedNamespaces and namespaceLabelSelector name, without those of
// excludedNamespaces, kube-system and kube-public.
type ResourceDistributionTargets struct {
	// allNamespaces chooses every namespace, also later ones. includedNamespaces and namespaceLabelSelector then have no effect. False when omitted.
	// +optional
	AllNamespaces bool `json:"allNamespaces,omitempty"`
	// excludedNamespaces get no copy, whatever else chooses them.
	// +optional
	ExcludedNamespaces ResourceDistributionTargetNamespaces `json:"excludedNamespaces,omitempty"`
	// includedNamespaces get a copy. One that does not exist yet gets it when it is created.
	// +optional
	IncludedNamespaces ResourceDistributionTargetNamespaces `json:"includedNamespaces,omitempty"`
	// namespaceLabelSelector chooses namespaces by their labels. An empty one chooses none.
	// +optional
	NamespaceLabelSelector metav1.LabelSelector `json:"namespaceLabelSelector,omitempty"`
}

// ResourceDistributionTargetNamespaces names namespaces.
type ResourceDistributionTargetNamespaces struct {
	// list has an entry for each namespace, at most 10000.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=10000
	List []ResourceDistributionNamespace `json:"list,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
}

// ResourceDistributionNamespace is one namespace.
type ResourceDistributionNamespace struct {
	// name is the namespace's.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
}

// ResourceDistributionStatus is how far the copies are.
type ResourceDistributionStatus struct {
	// desired is how many namespaces are to have a copy, missing ones of includedNamespaces included.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Desired int32 `json:"desired,omitempty"`
	// succeeded is how many of them have an up to date copy.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Succeeded int32 `json:"succeeded,omitempty"`
	// failed is how many have none.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Failed int32 `json:"failed,omitempty"`
	// observedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are one for each kind of failure, always in the same order, then Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:io.kubernetes.conditions"
	Conditions []ResourceDistributionCondition `json:"conditions,omitempty"`
}

// ResourceDistributionCondition is one condition, and the namespaces it is about.
type ResourceDistributionCondition struct {
	// type is the type of the condition.
	Type ResourceDistributionConditionType `json:"type"`
	// status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// lastTransitionTime is when the status changed last.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// reason is Succeeded, or the error in the first of the namespaces; for Reconciling and Stalled, a word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says more.
	// +optional
	Message string `json:"message,omitempty"`
	// failedNamespace are the namespaces concerned, sorted, at most 500; the message tells how many there are.
	// +optional
	// +listType=atomic
	FailedNamespaces []string `json:"failedNamespace,omitempty"`
}

// ResourceDistributionConditionType is what a condition is about; v1beta1 lists them.
type ResourceDistributionConditionType string

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=resourcedistributions,scope=Cluster,shortName=distributor,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="ResourceDistribution (v1alpha1)",order=31,resources={{ConfigMap,v1,""},{Secret,v1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="TOTAL",type="integer",JSONPath=".status.desired",description="The number of namespaces that are to have a copy."
// +kubebuilder:printcolumn:name="SUCCEED",type="integer",JSONPath=".status.succeeded",description="The number of namespaces with an up to date copy."
// +kubebuilder:printcolumn:name="FAILED",type="integer",JSONPath=".status.failed",description="The number of namespaces without one."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// ResourceDistribution keeps a ConfigMap or a Secret copied to many namespaces.
type ResourceDistribution struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is copied, and where to.
	Spec ResourceDistributionSpec `json:"spec,omitempty"`
	// status is how far the copies are.
	// +optional
	Status ResourceDistributionStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// ResourceDistributionList is a list of ResourceDistributions.
type ResourceDistributionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ResourceDistribution `json:"items"`
}
