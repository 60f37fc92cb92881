// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ImagePullJobSpec says which image is pulled to which nodes.
type ImagePullJobSpec struct {
	// image is the image to pull, by name, tag or digest. A name without a tag means latest.
	// +kubebuilder:validation:MinLength=1
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Image string `json:"image"`

	ImagePullJobTemplate `json:",inline"`
}

// ImagePullJobTemplate is how an image is pulled: all of a job but the image itself.
type ImagePullJobTemplate struct {
	// pullSecrets names Secrets of the job's namespace with credentials of the registry, at most 64. In an ImagePullJob it cannot be changed later;
	// a change in an ImageListPullJob replaces its ImagePullJobs.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	PullSecrets []string `json:"pullSecrets,omitempty"`
	// selector chooses nodes. When neither it nor podSelector is given, every node is chosen.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Selector *ImagePullJobNodeSelector `json:"selector,omitempty"`
	// podSelector chooses the nodes on which a pod of the job's namespace with these labels runs. It excludes selector.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	PodSelector *ImagePullJobPodSelector `json:"podSelector,omitempty"`
	// parallelism is how many nodes pull at the same time, a whole number of at least 0; a number in quotes counts as one.
	// 0 begins no further pull. When omitted, it is 1.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : string(self).matches('^[0-9]+$')",message="must be a whole number of at least 0; percentages are not allowed"
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Parallelism *intstr.IntOrString `json:"parallelism,omitempty"`
	// pullPolicy limits the tries of one node. When omitted, its fields have their defaults.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	PullPolicy *PullPolicy `json:"pullPolicy,omitempty"`
	// completionPolicy says when the job is over. When omitted, its type is Always.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	CompletionPolicy CompletionPolicy `json:"completionPolicy,omitempty"`
	// sandboxConfig is passed to the container runtime with every pull.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	SandboxConfig *SandboxConfig `json:"sandboxConfig,omitempty"`
	// imagePullPolicy says whether the registry is asked although the node has the image. When omitted, it is IfNotPresent.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ImagePullPolicy ImagePullPolicy `json:"imagePullPolicy,omitempty"`
}

// ImagePullPolicy says whether the registry is asked for an image that the node has.
type ImagePullPolicy string

const (
	// PullAlways asks the registry in any case, as is needed for tags that move.
	PullAlways ImagePullPolicy = "Always"
	// PullIfNotPresent pulls only on nodes that do not have the image.
	PullIfNotPresent ImagePullPolicy = "IfNotPresent"
)

// ImagePullJobNodeSelector chooses nodes by name or by label. Names that no node has are skipped.
// +kubebuilder:validation:XValidation:rule="!has(self.names) || size(self.names) == 0 || ((!has(self.matchLabels) || size(self.matchLabels) == 0) && (!has(self.matchExpressions) || size(self.matchExpressions) == 0))",message="names cannot be combined with matchLabels or matchExpressions"
type ImagePullJobNodeSelector struct {
	// names are names of nodes. They exclude labels.
	// +optional
	// +listType=set
	Names []string `json:"names,omitempty"`

	metav1.LabelSelector `json:",inline"`
}

// ImagePullJobPodSelector chooses nodes by the pods that run on them.
type ImagePullJobPodSelector struct {
	metav1.LabelSelector `json:",inline"`
}

// PullPolicy limits how long and how often one node tries.
type PullPolicy struct {
	// timeoutSeconds is how long one try may take, in seconds, from 1 to 86400. When omitted, it is 600.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// backoffLimit is how often a node tries again after a failure, from 0 to 100. When omitted, it is 3.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`
}

// CompletionPolicyType says whether a job ends.
// +kubebuilder:validation:Enum="";Always;Never
type CompletionPolicyType string

const (
	// CompleteAlways ends the job when every node has succeeded or failed.
	CompleteAlways CompletionPolicyType = "Always"
	// CompleteNever asks every node again after a day, for as long as the job exists.
	CompleteNever CompletionPolicyType = "Never"
)

// CompletionPolicy says when a job is over and when it is deleted.
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'Never' || (!has(self.activeDeadlineSeconds) && !has(self.ttlSecondsAfterFinished))",message="activeDeadlineSeconds and ttlSecondsAfterFinished need the type Always"
type CompletionPolicy struct {
	// type is Always, a job that ends, or Never. When omitted, it is Always.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Type CompletionPolicyType `json:"type,omitempty"`
	// activeDeadlineSeconds is how long the whole job may take, in seconds; at least pullPolicy.timeoutSeconds. What is not pulled by then
	// has failed. When omitted, there is no limit.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
	// ttlSecondsAfterFinished is how long after its end the job is deleted, in seconds. When omitted, it is kept.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// SandboxConfig is what a container runtime may want to know of the pod that an image is pulled for.
type SandboxConfig struct {
	// labels are labels of that pod.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations are annotations of that pod.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ImagePullJobStatus is how far a job has come.
type ImagePullJobStatus struct {
	// startTime is when the job began.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when it ended.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// desired is how many nodes are chosen.
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Desired int32 `json:"desired"`
	// active is how many nodes pull.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Active int32 `json:"active"`
	// succeeded is how many nodes have the image.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Succeeded int32 `json:"succeeded"`
	// failed is how many nodes have given up.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Failed int32 `json:"failed"`
	// message says how far the job is.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Message string `json:"message,omitempty"`
	// failedNodes names the nodes that have given up, sorted.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	FailedNodes []string `json:"failedNodes,omitempty"`
	// observedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions say what the job is doing, and what keeps it from going on.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:io.kubernetes.conditions"
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Condition types of an ImagePullJob and an ImageListPullJob, beside Reconciling and Stalled.
const (
	// ImagePullJobReconciling is True while the job is at work. Tools that wait for an object look at it and at Stalled.
	ImagePullJobReconciling = "Reconciling"
	// ImagePullJobStalled is True when the job needs attention: nodes have failed, or nothing can continue.
	ImagePullJobStalled = "Stalled"
	// ImagePullJobFailedCreate is True while the server refuses what the job has to write.
	ImagePullJobFailedCreate = "FailedCreate"
)

// Reasons of the conditions of an ImagePullJob and an ImageListPullJob.
const (
	// ReasonPulling: nodes pull, or are about to.
	ReasonPulling = "Pulling"
	// ReasonPulled: every node has the image.
	ReasonPulled = "Pulled"
	// ReasonPullFailed: nodes have given up, or all that are left try again; the message has what one of them says.
	ReasonPullFailed = "PullFailed"
	// ReasonNoMatchingNode: no node is chosen.
	ReasonNoMatchingNode = "NoMatchingNode"
	// ReasonNodeDaemonSilent: nodes were asked to pull, and none has reported anything for a minute.
	ReasonNodeDaemonSilent = "NodeDaemonSilent"
	// ReasonNodeImagesFull: the NodeImages of the nodes that wait have as many images, tags or jobs as they can have.
	ReasonNodeImagesFull = "NodeImagesFull"
	// ReasonNoDaemonNamespace: the node daemon's namespace does not exist, so pull secrets cannot be copied and no node is asked.
	ReasonNoDaemonNamespace = "NoDaemonNamespace"
	// ReasonSecretMissing: a Secret of pullSecrets is not there, so the image is pulled without it.
	ReasonSecretMissing = "SecretMissing"
)

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=imagepulljobs,scope=Namespaced,shortName=ipj,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="ImagePullJob",order=19,resources={{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="TOTAL",type="integer",JSONPath=".status.desired",description="The number of nodes that are chosen."
// +kubebuilder:printcolumn:name="ACTIVE",type="integer",JSONPath=".status.active",description="The number of nodes that pull."
// +kubebuilder:printcolumn:name="SUCCEED",type="integer",JSONPath=".status.succeeded",description="The number of nodes that have the image."
// +kubebuilder:printcolumn:name="FAILED",type="integer",JSONPath=".status.failed",description="The number of nodes that have given up."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="MESSAGE",type="string",JSONPath=".status.message",description="How far the job is."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."
// +kubebuilder:selectablefield:JSONPath=.spec.image

// ImagePullJob pulls one image to nodes ahead of need.
type ImagePullJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what to pull, and where.
	// +kubebuilder:validation:XValidation:rule="has(self.pullSecrets) ? (has(oldSelf.pullSecrets) ? self.pullSecrets == oldSelf.pullSecrets : size(self.pullSecrets) == 0) : (!has(oldSelf.pullSecrets) || size(oldSelf.pullSecrets) == 0)",message="cannot be changed once the job exists",reason=FieldValueForbidden,fieldPath=".pullSecrets"
	// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.podSelector)",message="selector and podSelector cannot be combined"
	// +kubebuilder:validation:XValidation:rule="!has(self.completionPolicy) || !has(self.completionPolicy.activeDeadlineSeconds) || self.completionPolicy.activeDeadlineSeconds >= (has(self.pullPolicy) && has(self.pullPolicy.timeoutSeconds) ? self.pullPolicy.timeoutSeconds : 600)",message="completionPolicy.activeDeadlineSeconds must be at least pullPolicy.timeoutSeconds (600 when omitted)"
	Spec ImagePullJobSpec `json:"spec,omitempty"`
	// status is how far the job has come.
	Status ImagePullJobStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// ImagePullJobList is a list of ImagePullJobs.
type ImagePullJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ImagePullJob `json:"items"`
}
