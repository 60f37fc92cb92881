// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=advancedcronjobs,scope=Namespaced,shortName=acj,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="AdvancedCronJob (v1alpha1)",order=12,resources={{Job,batch/v1,""},{BroadcastJob,apps.kruise.io/v1beta1,""},{ImageListPullJob,apps.kruise.io/v1beta1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="Schedule",type="string",JSONPath=".spec.schedule",description="When runs are due."
// +kubebuilder:printcolumn:name="Type",type="string",JSONPath=".status.type",description="The kind of what is created."
// +kubebuilder:printcolumn:name="LastScheduleTime",type="date",JSONPath=".status.lastScheduleTime",description="When the newest run was due."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="TimeZone",type="string",priority=1,JSONPath=".spec.timeZone",description="The time zone of the schedule; UTC when empty."
// +kubebuilder:printcolumn:name="Paused",type="boolean",priority=1,JSONPath=".spec.paused",description="Whether no run is started."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// AdvancedCronJob creates a Job, a BroadcastJob or an ImageListPullJob each time that its schedule says.
//
// Both versions have the same schema, so that the API server drops nothing when it converts.
type AdvancedCronJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what is run, and when.
	Spec v1beta1.AdvancedCronJobSpec `json:"spec,omitempty"`
	// status is what was last observed.
	Status v1beta1.AdvancedCronJobStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// AdvancedCronJobList is a list of AdvancedCronJobs.
type AdvancedCronJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AdvancedCronJob `json:"items"`
}
