// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// SidecarSetSpec says which pods get which sidecars, and how the images of injected ones are updated.
type SidecarSetSpec struct {
	// selector selects the pods that get the sidecars when they are created, by their labels. It must not be empty.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Selector *metav1.LabelSelector `json:"selector"`

	// namespaceSelector selects the namespaces of these pods by their labels. It must not be empty. When omitted, pods of every
	// namespace are selected.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// initContainers are added to the init containers of a pod, in the order of their names. One with restartPolicy Always is a native
	// sidecar. They need the updateStrategy NotUpdate when one is a native sidecar: a running pod keeps its init containers.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	InitContainers []SidecarContainer `json:"initContainers,omitempty" patchStrategy:"merge" patchMergeKey:"name"`

	// containers are added to the containers of a pod. An update may change or remove containers, and must not add one.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Containers []SidecarContainer `json:"containers,omitempty" patchStrategy:"merge" patchMergeKey:"name"`

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
	PatchPodMetadata []SidecarSetPatchPodMetadata `json:"patchPodMetadata,omitempty"`

	// injectionStrategy says whether new pods get the sidecars, and of which revision.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	InjectionStrategy SidecarSetInjectionStrategy `json:"injectionStrategy,omitempty"`

	// updateStrategy says how pods that have the sidecars get new images.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	UpdateStrategy SidecarSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// revisionHistoryLimit is how many revisions are kept, those that pods or injectionStrategy name beside them. At least one is kept.
	// When omitted, it is 10.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:number"
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// customVersion is a name of the user's own for this state of the set, by which injectionStrategy.revision can name it later. It must be
	// a valid value of a label. When omitted, the state has no name.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	CustomVersion string `json:"customVersion,omitempty"`
}

// SidecarContainer is a container that is added to pods, and how.
type SidecarContainer struct {
	// Container has the fields of a container of a pod.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	corev1.Container `json:",inline"`

	// podInjectPolicy says where the container goes: BeforeAppContainer or AfterAppContainer, which are the pod's own. When omitted, it is
	// BeforeAppContainer for containers and AfterAppContainer for init containers.
	// +optional
	PodInjectPolicy SidecarInjectPolicy `json:"podInjectPolicy,omitempty"`

	// upgradeStrategy says how the container gets a new image.
	// +optional
	// +kubebuilder:default={}
	UpgradeStrategy SidecarUpgradeStrategy `json:"upgradeStrategy,omitempty"`

	// shareVolumePolicy says whether the container mounts all that the pod's own containers mount.
	// +optional
	// +kubebuilder:default={}
	ShareVolumePolicy ShareVolumePolicy `json:"shareVolumePolicy,omitempty"`

	// shareVolumeDevicePolicy says whether the container gets all block devices that the pod's own containers have. When omitted, it does not.
	// +optional
	ShareVolumeDevicePolicy *ShareVolumePolicy `json:"shareVolumeDevicePolicy,omitempty"`

	// transferEnv are environment variables that are copied from containers of the pod.
	// +optional
	TransferEnv []TransferEnvVar `json:"transferEnv,omitempty"`

	// resourcesPolicy computes the resources from those of the pod's own containers. It replaces resources, which must be empty. Plain
	// init containers have none.
	// +optional
	ResourcesPolicy *SidecarResourcesPolicy `json:"resourcesPolicy,omitempty"`
}

// SidecarInjectPolicy says where a container goes.
type SidecarInjectPolicy string

const (
	// BeforeAppContainer puts it before the containers of the pod.
	BeforeAppContainer SidecarInjectPolicy = "BeforeAppContainer"
	// AfterAppContainer puts it after them.
	AfterAppContainer SidecarInjectPolicy = "AfterAppContainer"
)

// SidecarUpgradeStrategy says how a container gets a new image.
type SidecarUpgradeStrategy struct {
	// upgradeType is ColdUpgrade, which restarts the container, or HotUpgrade, which starts the new image in a second container before the
	// first one ends. It cannot be changed. When omitted, it is ColdUpgrade.
	// +optional
	// +kubebuilder:default=ColdUpgrade
	UpgradeType SidecarUpgradeType `json:"upgradeType,omitempty"`

	// hotUpgradeEmptyImage is the image of the container that has nothing to do: it must do nothing for ever. HotUpgrade requires it.
	// +optional
	HotUpgradeEmptyImage string `json:"hotUpgradeEmptyImage,omitempty"`
}

// SidecarUpgradeType is the way in which a container gets a new image.
type SidecarUpgradeType string

const (
	// ColdUpgrade restarts the container.
	ColdUpgrade SidecarUpgradeType = "ColdUpgrade"
	// HotUpgrade injects two containers and starts the new image in the one that is idle.
	HotUpgrade SidecarUpgradeType = "HotUpgrade"
)

// ShareVolumePolicy says whether something is shared with the containers of a pod.
type ShareVolumePolicy struct {
	// type is enabled or disabled. When omitted, it is disabled.
	// +optional
	// +kubebuilder:default=disabled
	Type ShareVolumePolicyType `json:"type,omitempty"`
}

// ShareVolumePolicyType says whether something is shared.
type ShareVolumePolicyType string

const (
	// ShareVolumePolicyEnabled shares it.
	ShareVolumePolicyEnabled ShareVolumePolicyType = "enabled"
	// ShareVolumePolicyDisabled does not.
	ShareVolumePolicyDisabled ShareVolumePolicyType = "disabled"
)

// TransferEnvVar names environment variables to copy from a container of the pod. What does not exist there is not copied.
type TransferEnvVar struct {
	// sourceContainerName is the container to copy from.
	// +optional
	SourceContainerName string `json:"sourceContainerName,omitempty"`

	// sourceContainerNameFrom takes the name of that container from the metadata of the pod. It wins over sourceContainerName.
	// +optional
	SourceContainerNameFrom *SourceContainerNameSource `json:"sourceContainerNameFrom,omitempty"`

	// envName is the variable to copy.
	// +optional
	EnvName string `json:"envName,omitempty"`

	// envNames are further variables to copy.
	// +optional
	EnvNames []string `json:"envNames,omitempty"`
}

// SourceContainerNameSource says where the name of a container is taken from.
type SourceContainerNameSource struct {
	// fieldRef names one label or one annotation of the pod: metadata.labels['<key>'] or metadata.annotations['<key>'].
	// +optional
	FieldRef *corev1.ObjectFieldSelector `json:"fieldRef,omitempty"`
}

// SidecarResourcesPolicy computes the resources of a sidecar from those of containers of the pod.
type SidecarResourcesPolicy struct {
	// targetContainersMode says how the resources of these containers become one value: sum adds them, max takes the largest.
	// +required
	TargetContainersMode SidecarTargetContainersMode `json:"targetContainersMode"`

	// targetContainersNameRegex is a regular expression that the names of these containers contain. Containers that SidecarSets add do not
	// count. A pod without such a container is rejected. When omitted, it is .*
	// +optional
	// +kubebuilder:default=".*"
	TargetContainersNameRegex string `json:"targetContainersNameRegex,omitempty"`

	// resourcesExpr are the expressions that give the resources.
	// +required
	ResourcesExpr SidecarResourcesExpr `json:"resourcesExpr"`
}

// SidecarTargetContainersMode says how the resources of several containers become one value.
// +kubebuilder:validation:Enum=sum;max
type SidecarTargetContainersMode string

const (
	// TargetContainersSum adds them.
	TargetContainersSum SidecarTargetContainersMode = "sum"
	// TargetContainersMax takes the largest one.
	TargetContainersMax SidecarTargetContainersMode = "max"
)

// SidecarResourcesExpr are the expressions of a resources policy. At least one must be set.
type SidecarResourcesExpr struct {
	// limits gives the limits. A resource that one of the target containers does not limit stays without limit.
	// +optional
	Limits *SidecarResourceExpressions `json:"limits,omitempty"`

	// requests gives the requests. A request that a target container does not have counts as 0.
	// +optional
	Requests *SidecarResourceExpressions `json:"requests,omitempty"`
}

// SidecarResourceExpressions are expressions of numbers, percentages, quantities, + - * /, parentheses, max(a, b), min(a, b) and the
// variables cpu and memory, such as max(cpu*50%, 50m).
type SidecarResourceExpressions struct {
	// cpu gives the CPU. When omitted, it is not set.
	// +optional
	CPU string `json:"cpu,omitempty"`

	// memory gives the memory. When omitted, it is not set.
	// +optional
	Memory string `json:"memory,omitempty"`
}

// SidecarSetPatchPodMetadata are annotations to write to pods.
type SidecarSetPatchPodMetadata struct {
	// annotations are their keys and values. There must be at least one. The ConfigMap kruise-configuration says which keys are allowed.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// patchPolicy says what happens to an annotation that the pod has already: Retain leaves it, Overwrite replaces it, MergePatchJson merges
	// the JSON in it with the JSON given here (RFC 7386). When omitted, it is Retain.
	// +optional
	// +kubebuilder:default=Retain
	PatchPolicy SidecarSetPatchPolicy `json:"patchPolicy,omitempty"`
}

// SidecarSetPatchPolicy says what happens to an annotation that a pod has already.
type SidecarSetPatchPolicy string

const (
	// SidecarSetRetainPatchPolicy leaves it.
	SidecarSetRetainPatchPolicy SidecarSetPatchPolicy = "Retain"
	// SidecarSetOverwritePatchPolicy replaces it.
	SidecarSetOverwritePatchPolicy SidecarSetPatchPolicy = "Overwrite"
	// SidecarSetMergePatchJSONPatchPolicy merges the JSON in it.
	SidecarSetMergePatchJSONPatchPolicy SidecarSetPatchPolicy = "MergePatchJson"
)

// SidecarSetInjectionStrategy says whether new pods get the sidecars, and of which revision.
type SidecarSetInjectionStrategy struct {
	// paused lets new pods pass without the sidecars. Pods that have them are updated all the same. When omitted, it is false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:booleanSwitch"
	Paused bool `json:"paused,omitempty"`

	// revision is the earlier revision that new pods get. When omitted, they get the present one.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Revision *SidecarSetInjectRevision `json:"revision,omitempty"`
}

// SidecarSetInjectRevision names a revision of a SidecarSet. One of revisionName and customVersion must be set.
type SidecarSetInjectRevision struct {
	// revisionName is the name of its ControllerRevision. It wins over customVersion.
	// +optional
	RevisionName *string `json:"revisionName,omitempty"`

	// customVersion is the spec.customVersion that the set had then. The newest such revision is taken.
	// +optional
	CustomVersion *string `json:"customVersion,omitempty"`

	// policy is Always: all new pods get the revision; or Partial: only those that updateStrategy would leave at an old revision, by its
	// selector or by its partition in percent. When omitted, it is Always.
	// +optional
	// +kubebuilder:default=Always
	Policy SidecarSetInjectRevisionPolicy `json:"policy,omitempty"`
}

// SidecarSetInjectRevisionPolicy says which new pods get an earlier revision.
// +kubebuilder:validation:Enum=Always;Partial
type SidecarSetInjectRevisionPolicy string

const (
	// AlwaysSidecarSetInjectRevisionPolicy gives it to all.
	AlwaysSidecarSetInjectRevisionPolicy SidecarSetInjectRevisionPolicy = "Always"
	// PartialSidecarSetInjectRevisionPolicy gives it to those that updateStrategy would leave at an old revision.
	PartialSidecarSetInjectRevisionPolicy SidecarSetInjectRevisionPolicy = "Partial"
)

// SidecarSetUpdateStrategyType says whether pods get new images.
type SidecarSetUpdateStrategyType string

const (
	// NotUpdateSidecarSetStrategyType never changes a pod after its creation.
	NotUpdateSidecarSetStrategyType SidecarSetUpdateStrategyType = "NotUpdate"
	// RollingUpdateSidecarSetStrategyType gives pods the new images in place, under the limits of updateStrategy.
	RollingUpdateSidecarSetStrategyType SidecarSetUpdateStrategyType = "RollingUpdate"
)

// SidecarSetUpdateStrategy says how pods that have the sidecars get new images. Only images can change in a running pod: pods whose
// sidecars differ in anything else are left alone, and the condition NotUpgradablePods counts them.
type SidecarSetUpdateStrategy struct {
	// type is RollingUpdate or NotUpdate. When omitted, it is RollingUpdate.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:RollingUpdate","urn:alm:descriptor:com.tectonic.ui:select:NotUpdate"}
	Type SidecarSetUpdateStrategyType `json:"type,omitempty"`

	// paused stops updates. New pods then get the revision that injectionStrategy.revision names, whatever its policy. When omitted, it is
	// false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:booleanSwitch"
	Paused bool `json:"paused,omitempty"`

	// selector selects the pods to update by their labels. It must not be empty, nor be set together with partition. When omitted, all
	// are updated.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// partition is how many pods stay at an old revision: a number, or a percentage of the matched pods rounded up. Of several pods a
	// percentage below 100% lets at least one pod move. Pods that cannot be updated count. When omitted, it is 0.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Partition *intstr.IntOrString `json:"partition,omitempty"`

	// maxUnavailable is how many pods may be unavailable while pods are updated: a number, or a percentage of the matched pods rounded up.
	// A pod that is not ready is updated whatever the limit. When omitted, it is 1.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// priorityStrategy says which pods are updated first, after those that are not ready. When omitted, pods without a node come first, then
	// pending ones, then those that are not ready or have been ready for the shortest time.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	PriorityStrategy *shared.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`

	// scatterStrategy spreads pods with certain labels evenly over the order of the update. The value "*" stands for every value of its key that
	// at least two pods have, the 100 most frequent ones.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ScatterStrategy []shared.UpdateScatterTerm `json:"scatterStrategy,omitempty"`
}

// SidecarSetStatus is what was last observed of a SidecarSet. Pods that are terminating or finished are not counted.
type SidecarSetStatus struct {
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// matchedPods is how many pods the selectors match that have the sidecars.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:com.tectonic.ui:podCount"
	MatchedPods int32 `json:"matchedPods"`
	// updatedPods is how many of them have the sidecars of the present spec, or are being moved to it.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	UpdatedPods int32 `json:"updatedPods"`
	// readyPods is how many of them are running and ready. With a hot upgrade, the second container is idle, too.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	ReadyPods int32 `json:"readyPods"`
	// updatedReadyPods is how many of updatedPods are ready.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	UpdatedReadyPods int32 `json:"updatedReadyPods"`
	// latestRevision is the name of the ControllerRevision of the present spec.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	LatestRevision string `json:"latestRevision,omitempty"`
	// collisionCount is how often a new revision's name was taken by another one.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// conditions say what the set is doing and what stops it.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:io.kubernetes.conditions"
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=sidecarsets,scope=Cluster,shortName=scs,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="SidecarSet",order=5,resources={{Pod,v1,""},{ControllerRevision,apps/v1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="MATCHED",type="integer",JSONPath=".status.matchedPods",description="The number of pods that have the sidecars."
// +kubebuilder:printcolumn:name="UPDATED",type="integer",JSONPath=".status.updatedPods",description="The number of these pods at the present spec."
// +kubebuilder:printcolumn:name="READY",type="integer",JSONPath=".status.readyPods",description="The number of these pods that are ready."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="INJECTION",type="string",priority=1,JSONPath=".status.conditions[?(@.type=='InjectionPath')].reason",description="The way in which pods get the sidecars."
// +kubebuilder:printcolumn:name="CONTAINERS",type="string",priority=1,JSONPath=".spec.containers[*].name",description="The sidecars."
// +kubebuilder:printcolumn:name="IMAGES",type="string",priority=1,JSONPath=".spec.containers[*].image",description="The images of the sidecars."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// SidecarSet adds containers to the pods that it selects when they are created, and gives them new images in place later.
type SidecarSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which pods get which sidecars, and how they are updated.
	Spec SidecarSetSpec `json:"spec,omitempty"`
	// status is what was last observed of the set.
	Status SidecarSetStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// SidecarSetList is a list of SidecarSets.
type SidecarSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SidecarSet `json:"items"`
}
