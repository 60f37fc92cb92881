// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// SidecarSetSpec says which pods get which sidecars, and how the images of injected ones are updated.
type SidecarSetSpec struct {
	// selector selects the pods that get the sidecars when they are created, by their labels. It must not be empty.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Selector *metav1.LabelSelector `json:"selector"`

	// namespace is the one namespace of these pods. It and namespaceSelector must both agree when both are set. When omitted,
	// namespaceSelector alone decides.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Namespace string `json:"namespace,omitempty"`

	// namespaceSelector selects the namespaces of these pods by their labels. It must not be empty. When it and namespace are omitted, pods
	// of every namespace are selected.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// initContainers are added to the init containers of a pod, in the order of their names. One with restartPolicy Always is a native
	// sidecar. They need the updateStrategy NotUpdate when one is a native sidecar: a running pod keeps its init containers.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	InitContainers []v1beta1.SidecarContainer `json:"initContainers,omitempty" patchStrategy:"merge" patchMergeKey:"name"`

	// containers are added to the containers of a pod. An update may change or remove containers, and must not add one.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Containers []v1beta1.SidecarContainer `json:"containers,omitempty" patchStrategy:"merge" patchMergeKey:"name"`

	// volumes are those that the sidecars mount. Only volumes that are mounted are added to a pod, and a volume of the pod with the same
	// name wins.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Volumes []corev1.Volume `json:"volumes,omitempty" patchStrategy:"merge" patchMergeKey:"name"`

	// imagePullSecrets are added to those of a pod.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty" patchStrategy:"merge" patchMergeKey:"name"`

	// patchPodMetadata are annotations to write to the pods.
	// +optional
	// +listType=atomic
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	PatchPodMetadata []v1beta1.SidecarSetPatchPodMetadata `json:"patchPodMetadata,omitempty"`

	// injectionStrategy says whether new pods get the sidecars, and of which revision.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	InjectionStrategy v1beta1.SidecarSetInjectionStrategy `json:"injectionStrategy,omitempty"`

	// updateStrategy says how pods that have the sidecars get new images.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	UpdateStrategy v1beta1.SidecarSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// revisionHistoryLimit is how many revisions are kept, those that pods or injectionStrategy name beside them. At least one is kept.
	// When omitted, it is 10.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:number"
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=sidecarsets,scope=Cluster,shortName=scs,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="SidecarSet (v1alpha1)",order=6,resources={{Pod,v1,""},{ControllerRevision,apps/v1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="MATCHED",type="integer",JSONPath=".status.matchedPods",description="The number of pods that have the sidecars."
// +kubebuilder:printcolumn:name="UPDATED",type="integer",JSONPath=".status.updatedPods",description="The number of these pods at the present spec."
// +kubebuilder:printcolumn:name="READY",type="integer",JSONPath=".status.readyPods",description="The number of these pods that are ready."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="INJECTION",type="string",priority=1,JSONPath=".status.conditions[?(@.type=='InjectionPath')].reason",description="The way in which pods get the sidecars."
// +kubebuilder:printcolumn:name="CONTAINERS",type="string",priority=1,JSONPath=".spec.containers[*].name",description="The sidecars."
// +kubebuilder:printcolumn:name="IMAGES",type="string",priority=1,JSONPath=".spec.containers[*].image",description="The images of the sidecars."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// SidecarSet adds containers to the pods that it selects when they are created, and gives them new images in place later.
//
// The label apps.kruise.io/sidecarset-custom-version of this version is spec.customVersion in v1beta1, and namespace is part of its
// namespaceSelector there. Objects are converted without loss.
type SidecarSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which pods get which sidecars, and how they are updated.
	Spec SidecarSetSpec `json:"spec,omitempty"`
	// status is what was last observed of the set.
	Status v1beta1.SidecarSetStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// SidecarSetList is a list of SidecarSets.
type SidecarSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SidecarSet `json:"items"`
}
