// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package shared

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// PodUpdatePolicy says how a pod moves to another revision.
type PodUpdatePolicy string

const (
	// RecreatePods always replaces the pod.
	RecreatePods PodUpdatePolicy = "ReCreate"
	// InPlaceIfPossible edits the pod where the difference allows it and replaces it otherwise.
	InPlaceIfPossible PodUpdatePolicy = "InPlaceIfPossible"
	// InPlaceOnly edits the pod; a difference that does not allow it is an error and the pod stays as it is.
	InPlaceOnly PodUpdatePolicy = "InPlaceOnly"
)

// InPlaceUpdateStrategy configures updates in place.
type InPlaceUpdateStrategy struct {
	// gracePeriodSeconds is how long a pod stays out of service before its containers are changed, in seconds.
	// When omitted, it is 0.
	// +optional
	GracePeriodSeconds int32 `json:"gracePeriodSeconds,omitempty"`
	// imagePreDownloadParallelism is how many nodes pull the new image at the same time, ahead of the update: a whole
	// number, no percentage. When omitted, it is 1.
	// +optional
	ImagePreDownloadParallelism *intstr.IntOrString `json:"imagePreDownloadParallelism,omitempty"`
	// imagePreDownloadTimeoutSeconds is how long one node may take to pull the image, in seconds, from 1 to 86400.
	// When omitted, it is 300.
	// +optional
	ImagePreDownloadTimeoutSeconds *int32 `json:"imagePreDownloadTimeoutSeconds,omitempty"`
	// imagePreDownloadMinUpdatedReadyPods is how many updated pods must be ready before images are pulled ahead.
	// When omitted, it is 0.
	// +optional
	ImagePreDownloadMinUpdatedReadyPods *int32 `json:"imagePreDownloadMinUpdatedReadyPods,omitempty"`
}

// UpdatePriorityStrategy says which pods are updated first. At most one of its lists may be set.
type UpdatePriorityStrategy struct {
	// orderPriority ranks pods by labels: a pod belongs to the first entry whose key it carries; inside one entry the larger
	// trailing number of the label's value comes first. Pods with none of the keys come before all others.
	// +optional
	OrderPriority []UpdatePriorityOrderTerm `json:"orderPriority,omitempty"`
	// weightPriority ranks pods by the sum of the weights of all terms that match them; the larger sum comes first.
	// +optional
	WeightPriority []UpdatePriorityWeightTerm `json:"weightPriority,omitempty"`
}

// UpdatePriorityOrderTerm is one rank of UpdatePriorityStrategy.orderPriority.
type UpdatePriorityOrderTerm struct {
	// orderedKey is the key of a pod label.
	OrderedKey string `json:"orderedKey"`
}

// UpdatePriorityWeightTerm is one term of UpdatePriorityStrategy.weightPriority.
type UpdatePriorityWeightTerm struct {
	// weight is added to a pod that the selector matches; 0 to 100.
	Weight int32 `json:"weight"`
	// matchSelector selects pods by their labels. It must not be empty.
	MatchSelector metav1.LabelSelector `json:"matchSelector"`
}

// UpdateScatterTerm names one label whose pods are spread evenly over the order of an update.
type UpdateScatterTerm struct {
	// key is the key of a pod label.
	Key string `json:"key"`
	// value is the value of that label.
	Value string `json:"value"`
}

// Lifecycle holds the hooks at which a user may stop a pod.
type Lifecycle struct {
	// preNormal holds a new pod back from becoming available.
	// +optional
	PreNormal *LifecycleHook `json:"preNormal,omitempty"`
	// preDelete holds a pod back from being deleted by its workload.
	// +optional
	PreDelete *LifecycleHook `json:"preDelete,omitempty"`
	// inPlaceUpdate holds a pod back from being changed in place, and from being available again afterwards.
	// +optional
	InPlaceUpdate *LifecycleHook `json:"inPlaceUpdate,omitempty"`
}

// LifecycleHook says what on a pod counts as the hook.
type LifecycleHook struct {
	// labelsHandler are labels of a pod. It waits before an update or a deletion while it has any of them with exactly this value, or any of
	// finalizersHandler. At preNormal, and after an update, it waits until it has all of them.
	// +optional
	LabelsHandler map[string]string `json:"labelsHandler,omitempty"`
	// finalizersHandler are finalizers of a pod, which count as labelsHandler does.
	// +optional
	FinalizersHandler []string `json:"finalizersHandler,omitempty"`
	// markPodNotReady takes the pod out of service while it waits at this hook. Meaningful on inPlaceUpdate and preDelete.
	// When omitted, it is false.
	// +optional
	MarkPodNotReady bool `json:"markPodNotReady,omitempty"`
}

// LifecycleState is where a pod stands between its hooks, the value of LabelLifecycleState. An absent label means normal.
type LifecycleState string

const (
	// StatePreparingNormal is a new pod that waits for its preNormal hook. Not available.
	StatePreparingNormal LifecycleState = "PreparingNormal"
	// StateNormal is a pod that nothing is done to.
	StateNormal LifecycleState = "Normal"
	// StatePreparingUpdate is a pod that waits for its inPlaceUpdate hook to be released. Not available.
	StatePreparingUpdate LifecycleState = "PreparingUpdate"
	// StateUpdating is a pod whose containers are being changed. Not available.
	StateUpdating LifecycleState = "Updating"
	// StateUpdated is a changed pod that waits for its inPlaceUpdate hook to be put back. Not available.
	StateUpdated LifecycleState = "Updated"
	// StatePreparingDelete is a pod that waits for its preDelete hook to be released before it is deleted. Not available.
	StatePreparingDelete LifecycleState = "PreparingDelete"
)

// InPlaceUpdateState is the value of AnnotationInPlaceState: the last update of a pod in place, running or done.
type InPlaceUpdateState struct {
	// Revision is the revision the pod is moved to: its full name, or for DaemonSet its hash.
	Revision string `json:"revision"`
	// UpdateTimestamp is when this update began. The grace period counts from here.
	UpdateTimestamp metav1.Time `json:"updateTimestamp,omitempty"`
	// LastContainerStatuses holds the state before the edit of the containers whose image changes.
	LastContainerStatuses map[string]InPlaceContainerStatus `json:"lastContainerStatuses"`
	// UpdateEnvFromMetadata says that variables taken from pod metadata change.
	UpdateEnvFromMetadata bool `json:"updateEnvFromMetadata,omitempty"`
	// UpdateResources says that container resources change.
	UpdateResources bool `json:"updateResources,omitempty"`
	// UpdateImages says that container images change.
	UpdateImages bool `json:"updateImages,omitempty"`
	// NextContainerImages are the images of later batches, by container.
	NextContainerImages map[string]string `json:"nextContainerImages,omitempty"`
	// NextContainerRefMetadata is the metadata of later batches, by container.
	NextContainerRefMetadata map[string]metav1.ObjectMeta `json:"nextContainerRefMetadata,omitempty"`
	// NextContainerResources are the resources of later batches, by container.
	NextContainerResources map[string]corev1.ResourceRequirements `json:"nextContainerResources,omitempty"`
	// PreCheckBeforeNext is what must hold before the next batch begins.
	PreCheckBeforeNext *InPlacePreCheck `json:"preCheckBeforeNext,omitempty"`
	// ContainerBatchesRecord is the history of batches of this revision.
	ContainerBatchesRecord []InPlaceContainerBatch `json:"containerBatchesRecord,omitempty"`
}

// InPlaceContainerStatus is what InPlaceUpdateState remembers of a container.
type InPlaceContainerStatus struct {
	// ImageID is the image the container ran before the edit.
	ImageID string `json:"imageID,omitempty"`
}

// InPlacePreCheck is a condition between two batches.
type InPlacePreCheck struct {
	// ContainersRequiredReady names the containers that must be ready.
	ContainersRequiredReady []string `json:"containersRequiredReady,omitempty"`
}

// InPlaceContainerBatch is one batch that was begun.
type InPlaceContainerBatch struct {
	// Timestamp is when it was begun.
	Timestamp metav1.Time `json:"timestamp"`
	// Containers names the containers it changed.
	Containers []string `json:"containers"`
}

// InPlaceUpdateGrace is the value of AnnotationInPlaceGrace: an edit that is decided and not sent yet.
type InPlaceUpdateGrace struct {
	// Revision is the revision the pod is moved to.
	Revision string `json:"revision"`
	// ContainerImages are the new images, by container.
	ContainerImages map[string]string `json:"containerImages,omitempty"`
	// ContainerRefMetadata is new metadata that containers read through their environment, by container.
	ContainerRefMetadata map[string]metav1.ObjectMeta `json:"containerRefMetadata,omitempty"`
	// ContainerResources are the new resources, by container.
	ContainerResources map[string]corev1.ResourceRequirements `json:"containerResources,omitempty"`
	// MetaDataPatch is a strategic merge patch of the pod's metadata; base64 in JSON.
	MetaDataPatch []byte `json:"metaDataPatch,omitempty"`
	// UpdateEnvFromMetadata is as in InPlaceUpdateState.
	UpdateEnvFromMetadata bool `json:"updateEnvFromMetadata,omitempty"`
	// GraceSeconds is the grace period.
	GraceSeconds int32 `json:"graceSeconds,omitempty"`
	// OldTemplate and NewTemplate are the templates of the two revisions, where the writer added them.
	OldTemplate *corev1.PodTemplateSpec `json:"oldTemplate,omitempty"`
	// NewTemplate is the template the pod is moved to.
	NewTemplate *corev1.PodTemplateSpec `json:"newTemplate,omitempty"`
}

// InPlaceEvidence is the value of AnnotationInPlaceEvidence: what was true when an edit of ours was sent, so that its effect can be
// distinguished from the state before it and from an ordinary crash.
type InPlaceEvidence struct {
	// Revision is the revision of the edit.
	Revision string `json:"revision"`
	// Generation is the pod's metadata.generation that the edit produces. A status that observed less belongs to the old spec.
	Generation int64 `json:"generation,omitempty"`
	// Containers holds what the changed containers ran when the edit was sent, by container.
	Containers map[string]InPlaceContainerEvidence `json:"containers,omitempty"`
}

// InPlaceContainerEvidence is what InPlaceEvidence remembers of a container.
type InPlaceContainerEvidence struct {
	// ContainerID is the container that the edit replaces.
	ContainerID string `json:"containerID,omitempty"`
	// Image is status.image of that container, as the runtime reported it.
	Image string `json:"image,omitempty"`
	// ImageID is the image ID of that container.
	ImageID string `json:"imageID,omitempty"`
	// SpecImage is the image that container was created from, as its pod's spec had it. Empty when that is not known.
	SpecImage string `json:"specImage,omitempty"`
	// Superseded says that an earlier edit of the container's image had not been proven when this one was sent, so the next container may still
	// be from that earlier edit.
	Superseded bool `json:"superseded,omitempty"`
}

// ReadinessHolder is one writer that holds a pod out of service. The message of a KruisePodReady condition is a JSON list of
// them, sorted by user agent, then key, without white space.
type ReadinessHolder struct {
	// UserAgent is who holds the pod: "Lifecycle", "ContainerRecreateRequest".
	UserAgent string `json:"userAgent"`
	// Key distinguishes several holds of one writer.
	Key string `json:"key"`
}
