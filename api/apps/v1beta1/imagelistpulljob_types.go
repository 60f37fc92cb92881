// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ImageListPullJobSpec says which images are pulled to which nodes.
type ImageListPullJobSpec struct {
	// images are the images to pull, at most 255, each once.
	// +optional
	// +listType=atomic
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Images []string `json:"images"`

	ImagePullJobTemplate `json:",inline"`
}

// ImageListPullJobTemplateSpec is an ImageListPullJob to be created.
type ImageListPullJobTemplateSpec struct {
	// metadata has the labels and annotations of the job.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is that of the job.
	// +optional
	Spec ImageListPullJobSpec `json:"spec,omitempty"`
}

// ImageListPullJobStatus is how far a job has come. It counts images, where an ImagePullJob counts nodes.
type ImageListPullJobStatus struct {
	// startTime is when the job began.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when it ended.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// desired is how many images there are.
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Desired int32 `json:"desired"`
	// active is how many images are being pulled by some node.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Active int32 `json:"active"`
	// completed is how many images all nodes have reported a result for, whether they have the image or not.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Completed int32 `json:"completed"`
	// succeeded is how many images every node has.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Succeeded int32 `json:"succeeded"`
	// failedImageStatuses are the images that some node could not pull, in the order of spec.images.
	// +optional
	// +listType=atomic
	// +operator-sdk:csv:customresourcedefinitions:type=status
	FailedImageStatuses []FailedImageStatus `json:"failedImageStatuses,omitempty"`
	// observedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions say what the job is doing, and what keeps it from going on. They are those of an ImagePullJob.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:io.kubernetes.conditions"
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// FailedImageStatus says that some node could not pull an image, and where to read more.
type FailedImageStatus struct {
	// imagePullJob is the name of the ImagePullJob of the image.
	// +optional
	ImagePullJob string `json:"imagePullJob,omitempty"`
	// name is the image.
	// +optional
	Name string `json:"name,omitempty"`
	// message says how many nodes have failed.
	// +optional
	Message string `json:"message,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=imagelistpulljobs,scope=Namespaced,shortName=ilpj,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="ImageListPullJob",order=21,resources={{ImagePullJob,apps.kruise.io/v1beta1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="TOTAL",type="integer",JSONPath=".status.desired",description="The number of images."
// +kubebuilder:printcolumn:name="SUCCEEDED",type="integer",JSONPath=".status.succeeded",description="The number of images that every node has."
// +kubebuilder:printcolumn:name="COMPLETED",type="integer",JSONPath=".status.completed",description="The number of images for which all nodes have reported a result."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// ImageListPullJob pulls several images to the same nodes ahead of need, by an ImagePullJob for each of them.
type ImageListPullJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what to pull, and where.
	// +kubebuilder:validation:XValidation:rule="has(self.images) && size(self.images) >= 1 && size(self.images) <= 255",message="must have 1 to 255 images",fieldPath=".images"
	// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.podSelector)",message="selector and podSelector cannot be combined"
	Spec ImageListPullJobSpec `json:"spec,omitempty"`
	// status is how far the job has come.
	Status ImageListPullJobStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// ImageListPullJobList is a list of ImageListPullJobs.
type ImageListPullJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ImageListPullJob `json:"items"`
}
