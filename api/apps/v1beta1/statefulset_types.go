// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// StatefulSetSpec is what a StatefulSet should look like.
type StatefulSetSpec struct {
	// replicas is how many pods the set has. When omitted, it is 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:podCount"
	Replicas *int32 `json:"replicas,omitempty"`

	// selector matches the labels of the template. It cannot be changed.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Selector *metav1.LabelSelector `json:"selector"`

	// template is the pod that is created for every ordinal. Changing it moves the pods to a new revision.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Template corev1.PodTemplateSpec `json:"template"`

	// volumeClaimTemplates are the claims of every pod, named <template>-<set>-<ordinal>. A claim wins over a volume of the
	// template with the same name. A change affects new claims, and existing ones as volumeClaimUpdateStrategy says.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`

	// volumeClaimUpdateStrategy says what a changed volumeClaimTemplates means for existing claims.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	VolumeClaimUpdateStrategy VolumeClaimUpdateStrategy `json:"volumeClaimUpdateStrategy,omitempty"`

	// serviceName is the governing headless Service, and the subdomain of the pods. It cannot be changed.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:io.kubernetes:Service"
	ServiceName string `json:"serviceName,omitempty"`

	// podManagementPolicy says whether pods are created and deleted one after the other (OrderedReady) or all at once
	// (Parallel). It cannot be changed. When omitted, it is OrderedReady.
	// +optional
	// +kubebuilder:validation:Enum=OrderedReady;Parallel
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:OrderedReady","urn:alm:descriptor:com.tectonic.ui:select:Parallel"}
	PodManagementPolicy appsv1.PodManagementPolicyType `json:"podManagementPolicy,omitempty"`

	// updateStrategy says how pods move to a new revision.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	UpdateStrategy StatefulSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// revisionHistoryLimit is how many revisions that no pod uses are kept for rolling back. When omitted, it is 10.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:number"
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// reserveOrdinals are ordinals that no pod may have: numbers, or closed ranges such as "3-7". The set has its full number of
	// replicas all the same; a running pod with a reserved ordinal is replaced by one with the next free ordinal. One range may
	// reserve at most 1000000 ordinals.
	// +optional
	// +kubebuilder:validation:items:XIntOrString
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ReserveOrdinals []intstr.IntOrString `json:"reserveOrdinals,omitempty"`

	// lifecycle holds the hooks at which a pod waits for its user.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Lifecycle *shared.Lifecycle `json:"lifecycle,omitempty"`

	// scaleStrategy limits how the set grows.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ScaleStrategy *StatefulSetScaleStrategy `json:"scaleStrategy,omitempty"`

	// persistentVolumeClaimRetentionPolicy says when claims are deleted. When omitted, they are kept.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	PersistentVolumeClaimRetentionPolicy *StatefulSetPersistentVolumeClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`

	// ordinals says which ordinals pods have. Ignored unless the feature gate StatefulSetStartOrdinal is on.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Ordinals *StatefulSetOrdinals `json:"ordinals,omitempty"`
}

// StatefulSetUpdateStrategyType says who starts the update of a pod.
type StatefulSetUpdateStrategyType = appsv1.StatefulSetUpdateStrategyType

// VolumeClaimUpdateStrategyType says when existing claims follow a changed template.
type VolumeClaimUpdateStrategyType string

const (
	// OnPodRollingUpdateVolumeClaimUpdateStrategyType expands the claims of a pod when the pod's turn comes.
	OnPodRollingUpdateVolumeClaimUpdateStrategyType VolumeClaimUpdateStrategyType = "OnPodRollingUpdate"
	// OnDeleteVolumeClaimUpdateStrategyType leaves existing claims alone.
	OnDeleteVolumeClaimUpdateStrategyType VolumeClaimUpdateStrategyType = "OnDelete"
)

// VolumeClaimUpdateStrategy says what a changed claim template means for existing claims.
type VolumeClaimUpdateStrategy struct {
	// type is OnDelete or OnPodRollingUpdate. When omitted while the feature gate StatefulSetAutoResizePVCGate is on, it is OnDelete.
	// +optional
	Type VolumeClaimUpdateStrategyType `json:"type,omitempty"`
}

// StatefulSetUpdateStrategy says how pods move to a new revision.
type StatefulSetUpdateStrategy struct {
	// type is RollingUpdate or OnDelete. With OnDelete a pod moves only when its user deletes it. When omitted, it is RollingUpdate.
	// +optional
	// +kubebuilder:validation:Enum=RollingUpdate;OnDelete
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Type StatefulSetUpdateStrategyType `json:"type,omitempty"`

	// rollingUpdate configures the type RollingUpdate. It has no effect with OnDelete.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	RollingUpdate *RollingUpdateStatefulSetStrategy `json:"rollingUpdate,omitempty"`
}

// RollingUpdateStatefulSetStrategy configures a rolling update.
type RollingUpdateStatefulSetStrategy struct {
	// partition is how many pods stay at the old revision: those with the lowest ordinals, or any that many for an
	// unordered update. When omitted, it is 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Partition *int32 `json:"partition,omitempty"`

	// maxUnavailable is how many pods may be unavailable while pods are updated: a number, or a percentage of replicas rounded
	// down, and never less than 1. With the pod management policy OrderedReady so many are taken at once from the top, and come back one by
	// one. When omitted, it is 1.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// podUpdatePolicy says whether pods are replaced or edited: ReCreate, InPlaceIfPossible or InPlaceOnly. Every new pod gets the
	// readiness gate InPlaceUpdateReady, whether the template has it or not. When omitted, it is ReCreate.
	// +optional
	// +kubebuilder:validation:Enum=ReCreate;InPlaceIfPossible;InPlaceOnly
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:ReCreate","urn:alm:descriptor:com.tectonic.ui:select:InPlaceIfPossible","urn:alm:descriptor:com.tectonic.ui:select:InPlaceOnly"}
	PodUpdatePolicy shared.PodUpdatePolicy `json:"podUpdatePolicy,omitempty"`

	// paused stops updates and deletions by label; pods are still created, and removed when replicas shrinks. When omitted, it
	// is false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:booleanSwitch"
	Paused bool `json:"paused,omitempty"`

	// unorderedUpdate updates pods by priority instead of by descending ordinal. It needs the pod management policy Parallel.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	UnorderedUpdate *UnorderedUpdateStrategy `json:"unorderedUpdate,omitempty"`

	// inPlaceUpdateStrategy configures updates in place.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	InPlaceUpdateStrategy *shared.InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`

	// minReadySeconds is how long a pod must be ready to count as available, in seconds; 0 to 300. It holds for scaling too.
	// When omitted, it is 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=300
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:number"
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
}

// UnorderedUpdateStrategy says which pods are updated first.
type UnorderedUpdateStrategy struct {
	// priorityStrategy ranks the pods. When omitted, the higher ordinal comes first.
	// +optional
	PriorityStrategy *shared.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`
}

// StatefulSetScaleStrategy limits how the set grows.
type StatefulSetScaleStrategy struct {
	// maxUnavailable is how many pods may be unavailable while new ones are created: a number, or a percentage of replicas
	// rounded down and never less than 1. It needs the pod management policy Parallel, or must be 1. When omitted, there is no limit.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// StatefulSetOrdinals says which ordinals pods have.
type StatefulSetOrdinals struct {
	// start is the lowest ordinal. When omitted, it is 0.
	// +optional
	Start int32 `json:"start,omitempty"`
}

// PersistentVolumeClaimRetentionPolicyType says what happens to a claim.
type PersistentVolumeClaimRetentionPolicyType = appsv1.PersistentVolumeClaimRetentionPolicyType

// StatefulSetPersistentVolumeClaimRetentionPolicy says when claims are deleted.
type StatefulSetPersistentVolumeClaimRetentionPolicy struct {
	// whenDeleted is Retain or Delete: what happens to the claims when the set is deleted. When omitted, it is Retain.
	// +optional
	// +kubebuilder:validation:Enum=Retain;Delete
	WhenDeleted PersistentVolumeClaimRetentionPolicyType `json:"whenDeleted,omitempty"`
	// whenScaled is Retain or Delete: what happens to the claims of a pod that is removed because its ordinal is no longer
	// wanted. When omitted, it is Retain.
	// +optional
	// +kubebuilder:validation:Enum=Retain;Delete
	WhenScaled PersistentVolumeClaimRetentionPolicyType `json:"whenScaled,omitempty"`
}

// StatefulSetStatus is what was last observed of a StatefulSet.
type StatefulSetStatus struct {
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// replicas is how many pods exist, those that are terminating or about to be removed included.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:com.tectonic.ui:podCount"
	Replicas int32 `json:"replicas"`
	// readyReplicas is how many pods are running and ready.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	ReadyReplicas int32 `json:"readyReplicas"`
	// availableReplicas is how many pods have been ready for minReadySeconds and wait at no hook.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	AvailableReplicas int32 `json:"availableReplicas"`
	// currentReplicas is how many pods that are not terminating run currentRevision.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	CurrentReplicas int32 `json:"currentReplicas"`
	// updatedReplicas is how many pods that are not terminating run, or are being moved to, updateRevision.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// updatedReadyReplicas is how many of updatedReplicas are ready.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas"`
	// updatedAvailableReplicas is how many of updatedReplicas are available.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	UpdatedAvailableReplicas int32 `json:"updatedAvailableReplicas"`
	// currentRevision is the revision the set was last completely on.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	CurrentRevision string `json:"currentRevision,omitempty"`
	// updateRevision is the revision of the present template.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	UpdateRevision string `json:"updateRevision,omitempty"`
	// collisionCount is how often a new revision's name was taken by another one.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// conditions say what the set is doing and what stops it.
	// +optional
	// +listType=atomic
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:io.kubernetes.conditions"
	Conditions []appsv1.StatefulSetCondition `json:"conditions,omitempty"`
	// labelSelector is the selector in text form, for the scale subresource.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	LabelSelector string `json:"labelSelector,omitempty"`
	// volumeClaims says how far the claims of existing pods match the claim templates.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	VolumeClaims []VolumeClaimStatus `json:"volumeClaims,omitempty"`
}

// VolumeClaimStatus says how far the claims made from one template match it.
type VolumeClaimStatus struct {
	// volumeClaimName is the name of the template.
	VolumeClaimName string `json:"volumeClaimName"`
	// compatibleReplicas is how many claims request at least what the template does.
	CompatibleReplicas int32 `json:"compatibleReplicas"`
	// compatibleReadyReplicas is how many of these have the capacity they request.
	CompatibleReadyReplicas int32 `json:"compatibleReadyReplicas"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:resource:path=statefulsets,scope=Namespaced,shortName=sts;asts,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="StatefulSet",order=1,resources={{Pod,v1,""},{PersistentVolumeClaim,v1,""},{ControllerRevision,apps/v1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="DESIRED",type="integer",JSONPath=".spec.replicas",description="The desired number of pods."
// +kubebuilder:printcolumn:name="CURRENT",type="integer",JSONPath=".status.replicas",description="The number of pods that exist."
// +kubebuilder:printcolumn:name="UPDATED",type="integer",JSONPath=".status.updatedReplicas",description="The number of pods at the update revision."
// +kubebuilder:printcolumn:name="READY",type="integer",JSONPath=".status.readyReplicas",description="The number of pods that are ready."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="CONTAINERS",type="string",priority=1,JSONPath=".spec.template.spec.containers[*].name",description="The containers of the template."
// +kubebuilder:printcolumn:name="IMAGES",type="string",priority=1,JSONPath=".spec.template.spec.containers[*].image",description="The images of the template."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// StatefulSet runs pods that keep their names, volumes and, through updates in place, their UIDs, nodes and addresses.
type StatefulSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the set should look like.
	// +kubebuilder:validation:XValidation:rule="self.selector == oldSelf.selector",message="cannot be changed once the set exists",reason=FieldValueForbidden,fieldPath=".selector"
	// +kubebuilder:validation:XValidation:rule="has(self.serviceName) ? (has(oldSelf.serviceName) ? self.serviceName == oldSelf.serviceName : self.serviceName == '') : (!has(oldSelf.serviceName) || oldSelf.serviceName == '')",message="cannot be changed once the set exists",reason=FieldValueForbidden,fieldPath=".serviceName"
	// +kubebuilder:validation:XValidation:rule="(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') == (has(oldSelf.podManagementPolicy) && oldSelf.podManagementPolicy == 'Parallel')",message="cannot be changed once the set exists",reason=FieldValueForbidden,fieldPath=".podManagementPolicy"
	Spec StatefulSetSpec `json:"spec,omitempty"`
	// status is what was last observed of the set.
	Status StatefulSetStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// StatefulSetList is a list of StatefulSets.
type StatefulSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []StatefulSet `json:"items"`
}
