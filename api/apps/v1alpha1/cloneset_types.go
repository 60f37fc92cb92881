// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// LabelExcludePreparingDelete on a CloneSet of this version, with the value "true", is what scaleStrategy.excludePreparingDelete
// is in v1beta1.
const LabelExcludePreparingDelete = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete"

// CloneSetSpec is what a CloneSet should look like.
type CloneSetSpec struct {
	// replicas is how many pods the set has. When omitted, it is 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:podCount"
	Replicas *int32 `json:"replicas,omitempty"`

	// selector matches the labels of the template. It cannot be changed.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Selector *metav1.LabelSelector `json:"selector"`

	// template is the pod that the set runs. Changing it moves the pods to a new revision.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Template corev1.PodTemplateSpec `json:"template"`

	// volumeClaimTemplates are the claims of every pod, named <template>-<set>-<instance ID>. A claim wins over a volume of the
	// template with the same name. A change affects the claims of new pods only.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`

	// scaleStrategy says which pods leave first, and limits how the set grows.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ScaleStrategy CloneSetScaleStrategy `json:"scaleStrategy,omitempty"`

	// updateStrategy says how pods move to a new revision.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	UpdateStrategy CloneSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// revisionHistoryLimit is how many revisions that no pod uses are kept for rolling back. When omitted, it is 10.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:number"
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// minReadySeconds is how long a pod must be ready to count as available, in seconds. When omitted, it is 0.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:number"
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// progressDeadlineSeconds is how long a rollout may go on without progress before the condition Progressing becomes False, in
	// seconds. It must be more than minReadySeconds. When omitted, or 2147483647, there is no deadline. Passing it stops nothing.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:number"
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// lifecycle holds the hooks at which a pod waits for its user.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Lifecycle *shared.Lifecycle `json:"lifecycle,omitempty"`
}

// CloneSetScaleStrategy says which pods leave first, and limits how the set grows.
type CloneSetScaleStrategy struct {
	// podsToDelete names pods of the set to delete before all others. They are replaced unless replicas shrinks by the same update.
	// Names of pods that no longer exist are removed from the list.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	PodsToDelete []string `json:"podsToDelete,omitempty"`

	// maxUnavailable is how many pods may be unavailable while new ones are created: a number, or a percentage of replicas
	// rounded up. When omitted, there is no limit.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// disablePVCReuse deletes the claims of a pod that somebody else deleted. When omitted, it is false, and such claims are kept
	// for the pod that replaces it under the same name.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	DisablePVCReuse bool `json:"disablePVCReuse,omitempty"`
}

// CloneSetUpdateStrategyType says how pods move to a new revision, and who starts it.
type CloneSetUpdateStrategyType string

const (
	// RecreateCloneSetUpdateStrategyType always replaces the pod.
	RecreateCloneSetUpdateStrategyType CloneSetUpdateStrategyType = "ReCreate"
	// InPlaceIfPossibleCloneSetUpdateStrategyType edits the pod where the difference allows it and replaces it otherwise.
	InPlaceIfPossibleCloneSetUpdateStrategyType CloneSetUpdateStrategyType = "InPlaceIfPossible"
	// InPlaceOnlyCloneSetUpdateStrategyType edits the pod; a difference that does not allow it is refused.
	InPlaceOnlyCloneSetUpdateStrategyType CloneSetUpdateStrategyType = "InPlaceOnly"
	// OnDeleteCloneSetUpdateStrategyType moves a pod only when its user deletes it.
	OnDeleteCloneSetUpdateStrategyType CloneSetUpdateStrategyType = "OnDelete"
)

// CloneSetUpdateStrategy says how pods move to a new revision.
type CloneSetUpdateStrategy struct {
	// type is ReCreate, InPlaceIfPossible, InPlaceOnly or OnDelete. With OnDelete a pod moves only when its user deletes it, and
	// the other fields have no effect. When omitted, it is ReCreate.
	// +optional
	// +kubebuilder:validation:Enum="";ReCreate;InPlaceIfPossible;InPlaceOnly;OnDelete
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Type CloneSetUpdateStrategyType `json:"type,omitempty"`

	// partition is how many pods stay at the old revision: a number, or a percentage of replicas rounded up. Of several replicas
	// a percentage below 100% lets at least one pod move. When omitted, it is 0.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Partition *intstr.IntOrString `json:"partition,omitempty"`

	// maxUnavailable is how many pods may be unavailable while pods are updated: a number, or a percentage of replicas rounded up
	// without maxSurge and down with it. When omitted, it is 20%.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxSurge is how many pods may exist above replicas while pods are updated: a number, or a percentage of replicas rounded
	// up. It must be 0 for InPlaceOnly, and counts as 0 while paused. When omitted, it is 0.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// paused stops updates; scaling and deletions go on. When omitted, it is false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:booleanSwitch"
	Paused bool `json:"paused,omitempty"`

	// priorityStrategy says which pods are updated first, after those that are not available. When omitted, pods without a node come first, then
	// pending ones, then those that are not ready or have been ready for the shortest time.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	PriorityStrategy *shared.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`

	// scatterStrategy spreads pods with certain labels evenly over the order of the update.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ScatterStrategy []shared.UpdateScatterTerm `json:"scatterStrategy,omitempty"`

	// inPlaceUpdateStrategy configures updates in place. Its fields imagePreDownload* have no effect in this version; the
	// annotations apps.kruise.io/image-predownload-* stand for them.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	InPlaceUpdateStrategy *shared.InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:resource:path=clonesets,scope=Namespaced,shortName=clone,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="CloneSet (v1alpha1)",order=4,resources={{Pod,v1,""},{PersistentVolumeClaim,v1,""},{ControllerRevision,apps/v1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="DESIRED",type="integer",JSONPath=".spec.replicas",description="The desired number of pods."
// +kubebuilder:printcolumn:name="UPDATED",type="integer",JSONPath=".status.updatedReplicas",description="The number of pods at the update revision."
// +kubebuilder:printcolumn:name="UPDATED_READY",type="integer",JSONPath=".status.updatedReadyReplicas",description="The number of pods at the update revision that are ready."
// +kubebuilder:printcolumn:name="UPDATED_AVAILABLE",type="integer",JSONPath=".status.updatedAvailableReplicas",description="The number of pods at the update revision that are available."
// +kubebuilder:printcolumn:name="READY",type="integer",JSONPath=".status.readyReplicas",description="The number of pods that are ready."
// +kubebuilder:printcolumn:name="TOTAL",type="integer",JSONPath=".status.replicas",description="The number of pods that exist."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="CONTAINERS",type="string",priority=1,JSONPath=".spec.template.spec.containers[*].name",description="The containers of the template."
// +kubebuilder:printcolumn:name="IMAGES",type="string",priority=1,JSONPath=".spec.template.spec.containers[*].image",description="The images of the template."
// +kubebuilder:printcolumn:name="SELECTOR",type="string",priority=1,JSONPath=".status.labelSelector",description="The selector of the pods."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// CloneSet runs pods that are all alike, without a ReplicaSet between itself and them. It moves them to a new revision in place
// or by replacing them, and lets its user say which pods are deleted.
//
// This version and v1beta1 have different shapes; objects are converted without loss.
type CloneSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the set should look like.
	// +kubebuilder:validation:XValidation:rule="self.selector == oldSelf.selector",message="cannot be changed once the set exists",reason=FieldValueForbidden,fieldPath=".selector"
	Spec CloneSetSpec `json:"spec,omitempty"`
	// status is what was last observed of the set.
	Status v1beta1.CloneSetStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// CloneSetList is a list of CloneSets.
type CloneSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CloneSet `json:"items"`
}
