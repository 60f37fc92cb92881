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
// +kubebuilder:resource:path=uniteddeployments,scope=Namespaced,shortName=ud,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="UnitedDeployment (v1alpha1)",order=10,resources={{StatefulSet,apps/v1,""},{StatefulSet,apps.kruise.io/v1beta1,""},{CloneSet,apps.kruise.io/v1beta1,""},{Deployment,apps/v1,""},{ControllerRevision,apps/v1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="DESIRED",type="integer",JSONPath=".spec.replicas",description="The desired number of pods."
// +kubebuilder:printcolumn:name="CURRENT",type="integer",JSONPath=".status.replicas",description="The number of pods that exist."
// +kubebuilder:printcolumn:name="UPDATED",type="integer",JSONPath=".status.updatedReplicas",description="The number of pods at the updated revision."
// +kubebuilder:printcolumn:name="READY",type="integer",JSONPath=".status.readyReplicas",description="The number of pods that are ready."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// UnitedDeployment runs one application as several workloads, its subsets, usually one for each zone or pool of nodes. It divides the
// pods among them, and updates them subset by subset.
//
// Both versions have the same schema, the union of what either ever had, so that the API server drops nothing when it converts.
type UnitedDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the UnitedDeployment should look like.
	// +kubebuilder:validation:XValidation:rule="self.selector == oldSelf.selector",message="cannot be changed once the set exists",reason=FieldValueForbidden,fieldPath=".selector"
	Spec v1beta1.UnitedDeploymentSpec `json:"spec,omitempty"`
	// status is what was last observed of the UnitedDeployment.
	Status v1beta1.UnitedDeploymentStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// UnitedDeploymentList is a list of UnitedDeployments.
type UnitedDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []UnitedDeployment `json:"items"`
}
