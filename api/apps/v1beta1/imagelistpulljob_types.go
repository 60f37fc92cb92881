// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ImageListPullJobSpec says which images are pulled to which nodes.
type ImageListPullJobSpec struct {
	// images are the images to pull, at most 255, each once.
	// +optional
	// +listType=atomic
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
