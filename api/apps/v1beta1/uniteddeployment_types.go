// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// UnitedDeploymentSpec is what a UnitedDeployment should look like.
type UnitedDeploymentSpec struct {
	// replicas is how many pods all subsets have together. When omitted, it is 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:podCount"
	Replicas *int32 `json:"replicas,omitempty"`

	// selector matches the pods of all subsets. The label apps.kruise.io/subset-name is added to that of each. It cannot be changed.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Selector *metav1.LabelSelector `json:"selector"`

	// template is the workload that is made for every subset.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Template SubsetTemplate `json:"template"`

	// topology lists the subsets, and says how pods are divided among them.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Topology Topology `json:"topology,omitempty"`

	// updateStrategy says how far each subset follows a new template.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	UpdateStrategy UnitedDeploymentUpdateStrategy `json:"updateStrategy,omitempty"`

	// revisionHistoryLimit is how many revisions that no subset uses are kept for rolling back. When omitted, it is 10.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:number"
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// SubsetTemplate is the workload that is made for every subset: exactly one of the fields is set. Setting another one later replaces the
// workloads by those of the other kind.
type SubsetTemplate struct {
	// statefulSetTemplate makes StatefulSets of apps/v1.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	StatefulSetTemplate *WorkloadTemplate `json:"statefulSetTemplate,omitempty"`

	// advancedStatefulSetTemplate makes StatefulSets of apps.kruise.io/v1beta1, in both versions of this kind.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	AdvancedStatefulSetTemplate *WorkloadTemplate `json:"advancedStatefulSetTemplate,omitempty"`

	// cloneSetTemplate makes CloneSets of apps.kruise.io/v1beta1, in both versions of this kind.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	CloneSetTemplate *WorkloadTemplate `json:"cloneSetTemplate,omitempty"`

	// deploymentTemplate makes Deployments of apps/v1. They know no partition.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	DeploymentTemplate *WorkloadTemplate `json:"deploymentTemplate,omitempty"`
}

// WorkloadTemplate is a workload without a name. Its kind has its own rules: here, everything below spec is passed on as it is written.
type WorkloadTemplate struct {
	// metadata are labels and annotations of the workload. The labels have to match the selector of the UnitedDeployment.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Metadata metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the spec of the workload, without replicas and partition: those follow from the topology and the updateStrategy. The selector
	// follows from that of the UnitedDeployment.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Spec runtime.RawExtension `json:"spec"`
}

// Topology lists subsets, and says how pods are divided among them.
type Topology struct {
	// subsets are the parts of the application, usually one for each zone or pool of nodes. Their order decides where pods go first. One that
	// is taken out is deleted with its pods at once, unless the annotation operator.kruise.io/subset-removal says AfterReplacement.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +patchStrategy=merge
	// +patchMergeKey=name
	// +kubebuilder:validation:MaxItems=500
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Subsets []Subset `json:"subsets,omitempty" patchStrategy:"merge" patchMergeKey:"name"`

	// scheduleStrategy says how pods that cannot be scheduled are handled.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ScheduleStrategy ScheduleStrategy `json:"scheduleStrategy,omitempty"`
}

// Subset is one part of the application.
type Subset struct {
	// name identifies the subset; a DNS label. It becomes part of the names of workloads and pods.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Name string `json:"name"`

	// nodeSelectorTerm says which nodes the pods may run on: it is added to every required node affinity of the template. It cannot be
	// changed; use patch for that.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	NodeSelectorTerm corev1.NodeSelectorTerm `json:"nodeSelectorTerm,omitempty,omitzero"`

	// tolerations are added to those of the template. They cannot be changed; use patch for that.
	// +optional
	// +listType=atomic
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// replicas is how many pods the subset has: a number, or a whole percentage of spec.replicas, half a pod rounded up. What the numbers of
	// all subsets leave is divided among those without one. It cannot be combined with minReplicas and maxReplicas in any subset, nor with
	// the schedule strategy Adaptive.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Replicas *intstr.IntOrString `json:"replicas,omitempty"`

	// minReplicas is how many pods the subset gets before any other gets more than its own: a number, or a whole percentage of spec.replicas.
	// When omitted, it is 0.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	MinReplicas *intstr.IntOrString `json:"minReplicas,omitempty"`

	// maxReplicas is how many pods the subset has at most: a number, or a whole percentage of spec.replicas. When omitted, there is no limit;
	// at least one subset must have none.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	MaxReplicas *intstr.IntOrString `json:"maxReplicas,omitempty"`

	// patch is a strategic merge patch of the pod template. It comes last, and may change anything but the labels that selectors need. A
	// change of it updates this subset alone.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Patch *runtime.RawExtension `json:"patch,omitempty"`
}

// ScheduleStrategyType says how pods that cannot be scheduled are handled.
type ScheduleStrategyType string

const (
	// FixedScheduleStrategy leaves them where they are.
	FixedScheduleStrategy ScheduleStrategyType = "Fixed"
	// AdaptiveScheduleStrategy moves them to subsets that have room.
	AdaptiveScheduleStrategy ScheduleStrategyType = "Adaptive"
)

// ScheduleStrategy says how pods that cannot be scheduled are handled.
type ScheduleStrategy struct {
	// type is Fixed or Adaptive. With Adaptive, pods that find no node for a while are created in other subsets instead. When omitted, it is
	// Fixed.
	// +optional
	// +kubebuilder:validation:Enum="";Fixed;Adaptive
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Type ScheduleStrategyType `json:"type,omitempty"`

	// adaptive configures the type Adaptive.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Adaptive *AdaptiveSchedule `json:"adaptive,omitempty"`
}

// AdaptiveSchedule configures how pods that find no node are moved.
type AdaptiveSchedule struct {
	// rescheduleCriticalSeconds is how long a pod may find no node before its subset counts as unschedulable, in seconds. When omitted, it is
	// 30.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:number"
	RescheduleCriticalSeconds *int32 `json:"rescheduleCriticalSeconds,omitempty"`

	// unschedulableDuration is how long a subset counts as unschedulable before it is tried again, in seconds. With reserveUnschedulablePods
	// it is how long a pod has to be ready before its replacement is deleted. When omitted, it is 300.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:number"
	UnschedulableDuration *int32 `json:"unschedulableDuration,omitempty"`

	// reserveUnschedulablePods keeps pods that cannot be scheduled in their subset, and runs replacements in other subsets until they run. Only
	// for CloneSets and Deployments. When omitted, it is false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:booleanSwitch"
	ReserveUnschedulablePods bool `json:"reserveUnschedulablePods,omitempty"`
}

// UnitedDeploymentUpdateStrategyType says who decides how far a subset is updated.
type UnitedDeploymentUpdateStrategyType string

// ManualUpdateStrategyType leaves it to the user.
const ManualUpdateStrategyType UnitedDeploymentUpdateStrategyType = "Manual"

// UnitedDeploymentUpdateStrategy says how far each subset follows a new template.
type UnitedDeploymentUpdateStrategy struct {
	// type is Manual.
	// +optional
	// +kubebuilder:validation:Enum="";Manual
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Type UnitedDeploymentUpdateStrategyType `json:"type,omitempty"`

	// manualUpdate configures the type Manual.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ManualUpdate *ManualUpdate `json:"manualUpdate,omitempty"`
}

// ManualUpdate says how far each subset follows a new template.
type ManualUpdate struct {
	// partitions are, by the name of a subset, how many of its pods stay at the revision before. More than the subset has are all. A subset
	// that is not named is updated at once, as its own kind does it.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Partitions map[string]int32 `json:"partitions,omitempty"`
}

// UnitedDeploymentStatus is what was last observed of a UnitedDeployment.
type UnitedDeploymentStatus struct {
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// replicas is how many pods the subsets have, without reserved ones.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:com.tectonic.ui:podCount"
	Replicas int32 `json:"replicas"`
	// readyReplicas is how many pods are ready.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	ReadyReplicas int32 `json:"readyReplicas"`
	// updatedReplicas is how many pods are at updatedRevision, without reserved ones.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// updatedReadyReplicas is how many of updatedReplicas are known to be ready. While StatefulSets of apps/v1 and Deployments are updated, it can
	// be less than there are: their statuses do not have this number.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas"`
	// reservedPods is how many pods have replacements in other subsets, because they cannot be scheduled or have not been ready for long enough
	// since.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	ReservedPods int32 `json:"reservedPods,omitempty"`
	// collisionCount is how often a new revision's name was taken by another one.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// currentRevision is the revision that all pods were last known to be at.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=status
	CurrentRevision string `json:"currentRevision"`
	// updatedRevision is the revision of the present template.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	UpdatedRevision string `json:"updatedRevision,omitempty"`
	// subsetStatuses are the progress of each subset, in the order of the topology.
	// +optional
	// +listType=atomic
	// +operator-sdk:csv:customresourcedefinitions:type=status
	SubsetStatuses []UnitedDeploymentSubsetStatus `json:"subsetStatuses,omitempty"`
	// subsetReplicas repeats the replicas of subsetStatuses by name. It is what clients of v1alpha1 read.
	// +optional
	SubsetReplicas map[string]int32 `json:"subsetReplicas,omitempty"`
	// updateStatus repeats updatedRevision and the partitions of subsetStatuses. It is what clients of v1alpha1 read.
	// +optional
	UpdateStatus *UnitedDeploymentUpdateStatus `json:"updateStatus,omitempty"`
	// labelSelector is the selector of the pods that count, in text form, for the scale subresource.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	LabelSelector string `json:"labelSelector,omitempty"`
	// conditions say what the UnitedDeployment is doing and what stops it.
	// +optional
	// +listType=atomic
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:io.kubernetes.conditions"
	Conditions []UnitedDeploymentCondition `json:"conditions,omitempty"`
}

// UnitedDeploymentUpdateStatus is the progress of an update in the form of v1alpha1.
type UnitedDeploymentUpdateStatus struct {
	// updatedRevision is the revision of the present template.
	// +optional
	UpdatedRevision string `json:"updatedRevision,omitempty"`
	// currentPartitions are, by the name of a subset, how many of its pods stay at the revision before.
	// +optional
	CurrentPartitions map[string]int32 `json:"currentPartitions,omitempty"`
}

// UnitedDeploymentSubsetStatus is the progress of one subset.
type UnitedDeploymentSubsetStatus struct {
	// name is that of the subset.
	Name string `json:"name"`
	// replicas is how many pods the subset should have.
	// +optional
	Replicas int32 `json:"replicas"`
	// readyReplicas is how many of its pods are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// updatedReplicas is how many of its pods are at the revision of the present template.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// partition is how many of its pods stay at the revision before.
	// +optional
	Partition int32 `json:"partition"`
	// reservedPods is how many of its pods find no node, or have not proved themselves since.
	// +optional
	ReservedPods int32 `json:"reservedPods,omitempty"`
	// workload is the name of the workload of the subset; empty until it exists.
	// +optional
	Workload string `json:"workload,omitempty"`
	// conditions say whether the pods of the subset find nodes. There are none unless the schedule strategy is Adaptive.
	// +optional
	// +listType=atomic
	Conditions []UnitedDeploymentSubsetCondition `json:"conditions,omitempty"`
}

// UnitedDeploymentCondition is one statement about a UnitedDeployment.
type UnitedDeploymentCondition struct {
	// type is what the condition is about.
	Type UnitedDeploymentConditionType `json:"type"`
	// status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// lastTransitionTime is when the status last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// reason says in one word why the status is what it is.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says so in a sentence.
	// +optional
	Message string `json:"message,omitempty"`
}

// UnitedDeploymentSubsetCondition is one statement about a subset.
type UnitedDeploymentSubsetCondition struct {
	// type is what the condition is about.
	Type UnitedDeploymentSubsetConditionType `json:"type"`
	// status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// lastTransitionTime is when the status last changed, or was confirmed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// reason says in one word why the status is what it is.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says so in a sentence.
	// +optional
	Message string `json:"message,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:resource:path=uniteddeployments,scope=Namespaced,shortName=ud,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="UnitedDeployment",order=9,resources={{StatefulSet,apps/v1,""},{StatefulSet,apps.kruise.io/v1beta1,""},{CloneSet,apps.kruise.io/v1beta1,""},{Deployment,apps/v1,""},{ControllerRevision,apps/v1,""},{Event,events.k8s.io/v1,""}}
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
	Spec UnitedDeploymentSpec `json:"spec,omitempty"`
	// status is what was last observed of the UnitedDeployment.
	Status UnitedDeploymentStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// UnitedDeploymentList is a list of UnitedDeployments.
type UnitedDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []UnitedDeployment `json:"items"`
}
