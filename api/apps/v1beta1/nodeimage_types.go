// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeImageSpec says which images a node should have.
type NodeImageSpec struct {
	// images are the images to pull, by repository without a tag, such as nginx or registry.example:5000/team/app; at most 256.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Images map[string]ImageSpec `json:"images,omitempty"`
	// namespacedImages are pulls of a namespace whose repository has an entry of somebody else in images, by namespace and repository, such as
	// team-b/nginx; at most 512.
	// +optional
	// +kubebuilder:validation:MaxProperties=512
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	NamespacedImages map[string]ImageSpec `json:"namespacedImages,omitempty"`
}

// ImageSpec says which tags of one repository a node should have.
type ImageSpec struct {
	// pullSecrets are Secrets in the node daemon's namespace with credentials of the registry.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	PullSecrets []ImagePullSecret `json:"pullSecrets,omitempty"`
	// tags are the tags to pull, each once.
	// +optional
	// +listType=map
	// +listMapKey=tag
	// +kubebuilder:validation:MaxItems=256
	Tags []ImageTagSpec `json:"tags,omitempty"`
	// sandboxConfig is handed to the container runtime with every pull.
	// +optional
	SandboxConfig *SandboxConfig `json:"sandboxConfig,omitempty"`
}

// ImagePullSecret names a Secret with credentials of a registry.
type ImagePullSecret struct {
	// namespace is the node daemon's. Secrets of others are not read.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name is the name of the Secret.
	// +optional
	Name string `json:"name,omitempty"`
	// mode is batch for a copy that all jobs share.
	// +optional
	Mode string `json:"mode,omitempty"`
}

// ImageTagSpec is one tag to pull.
type ImageTagSpec struct {
	// tag is the tag, or a digest such as sha256:....
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Tag string `json:"tag"`
	// createdAt is when the pull was asked for; now, when omitted. Timeouts count from here.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`
	// pullPolicy limits the tries, and how long the tag is kept here.
	// +optional
	PullPolicy *ImageTagPullPolicy `json:"pullPolicy,omitempty"`
	// ownerReferences are the jobs that want the tag. The tag goes with the last of them. Without any, it stays until it has expired.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	OwnerReferences []corev1.ObjectReference `json:"ownerReferences,omitempty"`
	// version counts the rounds: another number has the tag pulled again.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Version int64 `json:"version,omitempty"`
	// imagePullPolicy says whether the registry is asked although the node has the image. When omitted, it is Always.
	// +optional
	// +kubebuilder:validation:Enum="";Always;IfNotPresent
	ImagePullPolicy ImagePullPolicy `json:"imagePullPolicy,omitempty"`
}

// ImageTagPullPolicy limits how long and how often a node tries to pull one tag.
type ImageTagPullPolicy struct {
	// timeoutSeconds is how long one try may take, in seconds. When omitted, it is 600.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// backoffLimit is how often the node tries again after a failure. When omitted, it is 3.
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`
	// ttlSecondsAfterFinished is how long after its end the tag is removed from this list, in seconds. The image stays on the node.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// activeDeadlineSeconds is how long all tries together may take, in seconds. When omitted, there is no limit.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
}

// NodeImageStatus is what the node has pulled.
type NodeImageStatus struct {
	// desired is how many tags should be pulled.
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Desired int32 `json:"desired"`
	// succeeded is how many of them are pulled.
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Succeeded int32 `json:"succeeded"`
	// failed is how many of them the node has given up.
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Failed int32 `json:"failed"`
	// pulling is how many of them are being pulled.
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Pulling int32 `json:"pulling"`
	// waiting is how many of them wait in the node's queue, or for the container runtime.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Waiting int32 `json:"waiting"`
	// imageStatuses are the images by repository.
	// +optional
	ImageStatuses map[string]ImageStatus `json:"imageStatuses,omitempty"`
	// namespacedImageStatuses are those of spec.namespacedImages.
	// +optional
	NamespacedImageStatuses map[string]ImageStatus `json:"namespacedImageStatuses,omitempty"`
	// firstSyncStatus is kept for OpenKruise's sake; nothing writes it.
	// +optional
	FirstSyncStatus *SyncStatus `json:"firstSyncStatus,omitempty"`
}

// ImageStatus is what became of the tags of one repository.
type ImageStatus struct {
	// tags are the tags.
	// +optional
	// +listType=atomic
	Tags []ImageTagStatus `json:"tags,omitempty"`
}

// ImagePullPhase is what a pull is at.
type ImagePullPhase string

const (
	// ImagePhaseWaiting waits in the node's queue, or for the container runtime.
	ImagePhaseWaiting ImagePullPhase = "Waiting"
	// ImagePhasePulling is being pulled.
	ImagePhasePulling ImagePullPhase = "Pulling"
	// ImagePhaseSucceeded is on the node.
	ImagePhaseSucceeded ImagePullPhase = "Succeeded"
	// ImagePhaseFailed was given up.
	ImagePhaseFailed ImagePullPhase = "Failed"
)

// ImageTagStatus is what became of one tag.
type ImageTagStatus struct {
	// tag is the tag, or a digest.
	Tag string `json:"tag"`
	// phase is Waiting, Pulling, Succeeded or Failed.
	// +optional
	Phase ImagePullPhase `json:"phase,omitempty"`
	// progress is 100 when the image is on the node, and 0 before: the container runtime does not tell more.
	// +optional
	Progress int32 `json:"progress,omitempty"`
	// startTime is when the first try began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when the tag succeeded or failed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// version is the round that this is about.
	// +optional
	Version int64 `json:"version,omitempty"`
	// imageID is the image's, as the container runtime has it.
	// +optional
	ImageID string `json:"imageID,omitempty"`
	// message says why the tag waits or has failed.
	// +optional
	Message string `json:"message,omitempty"`
}

// SyncStatus is when a node was synced first.
type SyncStatus struct {
	// syncAt is the time.
	// +optional
	SyncAt metav1.Time `json:"syncAt,omitempty"`
	// status is Succeeded or Failed.
	// +optional
	Status string `json:"status,omitempty"`
	// message says more.
	// +optional
	Message string `json:"message,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodeimages,scope=Cluster,shortName=nimg
// +operator-sdk:csv:customresourcedefinitions:displayName="NodeImage",order=25,resources={{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="DESIRED",type="integer",JSONPath=".status.desired",description="The number of tags that should be pulled."
// +kubebuilder:printcolumn:name="PULLING",type="integer",JSONPath=".status.pulling",description="The number of tags that are being pulled."
// +kubebuilder:printcolumn:name="SUCCEED",type="integer",JSONPath=".status.succeeded",description="The number of tags that are pulled."
// +kubebuilder:printcolumn:name="FAILED",type="integer",JSONPath=".status.failed",description="The number of tags that were given up."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."

// NodeImage is the list of images that a node should pull, and what became of them. It has the name of its node.
type NodeImage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what to pull.
	Spec NodeImageSpec `json:"spec,omitempty"`
	// status is what is pulled.
	Status NodeImageStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// NodeImageList is a list of NodeImages.
type NodeImageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeImage `json:"items"`
}
