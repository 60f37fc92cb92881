// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:resource:path=statefulsets,scope=Namespaced,shortName=sts;asts,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="StatefulSet (v1alpha1)",order=2,resources={{Pod,v1,""},{PersistentVolumeClaim,v1,""},{ControllerRevision,apps/v1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="DESIRED",type="integer",JSONPath=".spec.replicas",description="The desired number of pods."
// +kubebuilder:printcolumn:name="CURRENT",type="integer",JSONPath=".status.replicas",description="The number of pods that exist."
// +kubebuilder:printcolumn:name="UPDATED",type="integer",JSONPath=".status.updatedReplicas",description="The number of pods at the update revision."
// +kubebuilder:printcolumn:name="READY",type="integer",JSONPath=".status.readyReplicas",description="The number of pods that are ready."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="CONTAINERS",type="string",priority=1,JSONPath=".spec.template.spec.containers[*].name",description="The containers of the template."
// +kubebuilder:printcolumn:name="IMAGES",type="string",priority=1,JSONPath=".spec.template.spec.containers[*].image",description="The images of the template."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// StatefulSet runs pods that keep their names, volumes and, through updates in place, their UIDs, nodes and addresses.
//
// Both versions have the same schema, the union of what either ever had, so that the API server drops nothing when it converts.
type StatefulSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the set should look like.
	// +kubebuilder:validation:XValidation:rule="self.selector == oldSelf.selector",message="cannot be changed once the set exists",reason=FieldValueForbidden,fieldPath=".selector"
	// +kubebuilder:validation:XValidation:rule="has(self.serviceName) ? (has(oldSelf.serviceName) ? self.serviceName == oldSelf.serviceName : self.serviceName == '') : (!has(oldSelf.serviceName) || oldSelf.serviceName == '')",message="cannot be changed once the set exists",reason=FieldValueForbidden,fieldPath=".serviceName"
	// +kubebuilder:validation:XValidation:rule="(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') == (has(oldSelf.podManagementPolicy) && oldSelf.podManagementPolicy == 'Parallel')",message="cannot be changed once the set exists",reason=FieldValueForbidden,fieldPath=".podManagementPolicy"
	Spec v1beta1.StatefulSetSpec `json:"spec,omitempty"`
	// status is what was last observed of the set.
	Status v1beta1.StatefulSetStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// StatefulSetList is a list of StatefulSets.
type StatefulSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []StatefulSet `json:"items"`
}
