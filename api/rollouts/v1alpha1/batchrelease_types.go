// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
)

// BatchReleaseSpec is what a Rollout orders.
type BatchReleaseSpec struct {
	// targetReference names the workload.
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	TargetRef WorkloadReference `json:"targetReference"`
	// releasePlan has the batches.
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ReleasePlan v1beta1.ReleasePlan `json:"releasePlan"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=batchreleases,scope=Namespaced,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="BatchRelease (v1alpha1)",order=39,resources={{Pod,v1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="KIND",type="string",JSONPath=".spec.targetReference.workloadRef.kind",description="The kind of the workload."
// +kubebuilder:printcolumn:name="PHASE",type="string",JSONPath=".status.phase",description="Where the BatchRelease is."
// +kubebuilder:printcolumn:name="BATCH",type="integer",JSONPath=".status.canaryStatus.currentBatch",description="The present batch, from 0."
// +kubebuilder:printcolumn:name="BATCH-STATE",type="string",JSONPath=".status.canaryStatus.batchState",description="Where the batch is."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."

// BatchRelease is how a Rollout has pods of a workload replaced. A Rollout makes one with its name; do not write it yourself.
type BatchRelease struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the order.
	Spec BatchReleaseSpec `json:"spec"`
	// status is the answer.
	// +optional
	Status v1beta1.BatchReleaseStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// BatchReleaseList is a list of BatchReleases.
type BatchReleaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BatchRelease `json:"items"`
}
