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

// AnnotationProgressiveCreatePod is spec.scaleStrategy.partitionedScaling of v1beta1, when its value is "true".
const AnnotationProgressiveCreatePod = "daemonset.kruise.io/progressive-create-pod"

// DaemonSetSpec is what a DaemonSet should look like.
type DaemonSetSpec struct {
	// selector matches the labels of the template. It cannot be changed.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Selector *metav1.LabelSelector `json:"selector"`

	// template is the pod that every fitting node runs. Which nodes fit follows from its nodeName, nodeSelector, required node affinity
	// and tolerations; pods get the tolerations of daemons beside them. Changing it moves the pods to a new revision.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Template corev1.PodTemplateSpec `json:"template"`

	// updateStrategy says how pods move to a new revision.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	UpdateStrategy DaemonSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// minReadySeconds is how long a pod must be ready to count as available, in seconds. When omitted, it is 0.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:number"
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// burstReplicas is how many pods may be created at a time, how many deleted, and how many changed in place: a number, or a percentage
	// of the nodes that should run a pod, rounded down but at least 1. When omitted, it is 250.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	BurstReplicas *intstr.IntOrString `json:"burstReplicas,omitempty"`

	// revisionHistoryLimit is how many revisions that no pod uses are kept for rolling back. When omitted, it is 10.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:number"
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// lifecycle holds the hook at which a pod waits for its user before it is deleted: preDelete. The hook inPlaceUpdate is refused, and
	// preNormal has no effect.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Lifecycle *shared.Lifecycle `json:"lifecycle,omitempty"`
}

// DaemonSetUpdateStrategy says how pods move to a new revision.
type DaemonSetUpdateStrategy struct {
	// type is RollingUpdate or OnDelete. With OnDelete a pod moves only when its user deletes it. When omitted, it is RollingUpdate.
	// +optional
	// +kubebuilder:validation:Enum="";RollingUpdate;OnDelete
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Type v1beta1.DaemonSetUpdateStrategyType `json:"type,omitempty"`

	// rollingUpdate configures the type RollingUpdate.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	RollingUpdate *RollingUpdateDaemonSet `json:"rollingUpdate,omitempty"`
}

// RollingUpdateType says whether pods are replaced or edited.
type RollingUpdateType string

const (
	// StandardRollingUpdateType replaces pods.
	StandardRollingUpdateType RollingUpdateType = "Standard"
	// InplaceRollingUpdateType edits pods where the change allows it, and replaces them elsewhere.
	InplaceRollingUpdateType RollingUpdateType = "InPlaceIfPossible"
	// DeprecatedSurgingRollingUpdateType is Standard with maxSurge 1 and maxUnavailable 0 where these are omitted. It is stored as such.
	DeprecatedSurgingRollingUpdateType RollingUpdateType = "Surging"
)

// RollingUpdateDaemonSet configures a rolling update.
type RollingUpdateDaemonSet struct {
	// rollingUpdateType is Standard, which replaces pods, or InPlaceIfPossible, which edits them where the change allows it and replaces
	// them elsewhere. Surging is deprecated: it
	// becomes Standard, with maxSurge 1 and maxUnavailable 0 where these are omitted. When omitted, it is Standard.
	// +optional
	// +kubebuilder:validation:Enum="";Standard;InPlaceIfPossible;Surging
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Standard","urn:alm:descriptor:com.tectonic.ui:select:InPlaceIfPossible"}
	Type RollingUpdateType `json:"rollingUpdateType,omitempty"`

	// maxUnavailable is on how many nodes the pod may be unavailable while pods are updated: a number, or a percentage of the nodes that
	// should run a pod, rounded up. When maxSurge is omitted, too, or 0, it is 1.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxSurge is on how many nodes a new pod may run beside the old one while pods are updated: a number, or a percentage of the nodes
	// that should run a pod, rounded up. It excludes maxUnavailable, and must be 0 for InPlaceIfPossible. When omitted, it is 0.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// selector limits the update to nodes with these labels. When omitted, all nodes are updated.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// partition is on how many nodes the pods stay at their revision: a number, or a percentage of the nodes that should run a pod,
	// rounded down. Those with the lowest names stay. A pod that is re-created, for whatever reason, is at the newest revision.
	// When omitted, it is 0.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Partition *intstr.IntOrString `json:"partition,omitempty"`

	// paused stops updates; pods that are missing or too many are still created and deleted. When omitted, it is false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:booleanSwitch"
	Paused *bool `json:"paused,omitempty"`
}

// DaemonSetStatus is what was last observed of a DaemonSet. Of several pods on a node the oldest one counts.
type DaemonSetStatus struct {
	// currentNumberScheduled is how many of the nodes that should run a pod have at least one.
	// +operator-sdk:csv:customresourcedefinitions:type=status
	CurrentNumberScheduled int32 `json:"currentNumberScheduled"`
	// numberMisscheduled is how many nodes have a pod that they should not have.
	// +operator-sdk:csv:customresourcedefinitions:type=status
	NumberMisscheduled int32 `json:"numberMisscheduled"`
	// desiredNumberScheduled is how many nodes should run a pod.
	// +operator-sdk:csv:customresourcedefinitions:type=status
	DesiredNumberScheduled int32 `json:"desiredNumberScheduled"`
	// numberReady is how many of the nodes that should run a pod have a ready one.
	// +operator-sdk:csv:customresourcedefinitions:type=status
	NumberReady int32 `json:"numberReady"`
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// updatedNumberScheduled is how many of the nodes that should run a pod have one at the update revision.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	UpdatedNumberScheduled int32 `json:"updatedNumberScheduled"`
	// numberAvailable is how many of the nodes that should run a pod have one that has been ready for minReadySeconds, is not being
	// updated and waits at no hook.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	NumberAvailable int32 `json:"numberAvailable"`
	// numberUnavailable is how many of the nodes that should run a pod have no available one.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	NumberUnavailable int32 `json:"numberUnavailable"`
	// collisionCount is how often a new revision's name was taken by another one.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// conditions say what the set is doing and what stops it.
	// +optional
	// +listType=atomic
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:io.kubernetes.conditions"
	Conditions []v1beta1.DaemonSetCondition `json:"conditions,omitempty"`
	// daemonSetHash is the hash of the revision of the present template, as pods have it in the label controller-revision-hash.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	DaemonSetHash string `json:"daemonSetHash,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=daemonsets,scope=Namespaced,shortName=daemon;ads,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="DaemonSet (v1alpha1)",order=8,resources={{Pod,v1,""},{ControllerRevision,apps/v1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="DESIRED",type="integer",JSONPath=".status.desiredNumberScheduled",description="The number of nodes that should run a pod."
// +kubebuilder:printcolumn:name="CURRENT",type="integer",JSONPath=".status.currentNumberScheduled",description="The number of these nodes that have a pod."
// +kubebuilder:printcolumn:name="READY",type="integer",JSONPath=".status.numberReady",description="The number of these nodes whose pod is ready."
// +kubebuilder:printcolumn:name="UP-TO-DATE",type="integer",JSONPath=".status.updatedNumberScheduled",description="The number of these nodes whose pod is at the update revision."
// +kubebuilder:printcolumn:name="AVAILABLE",type="integer",JSONPath=".status.numberAvailable",description="The number of these nodes whose pod is available."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="CONTAINERS",type="string",priority=1,JSONPath=".spec.template.spec.containers[*].name",description="The containers of the template."
// +kubebuilder:printcolumn:name="IMAGES",type="string",priority=1,JSONPath=".spec.template.spec.containers[*].image",description="The images of the template."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// DaemonSet runs one pod on every node that fits its template. It moves the pods to a new revision in place or by replacing them, on as many
// nodes and on those nodes that its user says.
//
// Where pods are created step by step, the annotation daemonset.kruise.io/progressive-create-pod says so; v1beta1 has a field for it.
type DaemonSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the set should look like.
	// +kubebuilder:validation:XValidation:rule="self.selector == oldSelf.selector",message="cannot be changed once the set exists",reason=FieldValueForbidden,fieldPath=".selector"
	Spec DaemonSetSpec `json:"spec,omitempty"`
	// status is what was last observed of the set.
	Status DaemonSetStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// DaemonSetList is a list of DaemonSets.
type DaemonSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DaemonSet `json:"items"`
}
