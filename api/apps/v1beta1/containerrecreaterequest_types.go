// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names on a ContainerRecreateRequest.
const (
	// LabelRequestPodUID is the UID of the pod that existed at the creation. The request is about that one only. Filled in by the operator, immutable.
	LabelRequestPodUID = "crr.apps.kruise.io/pod-uid"
	// LabelRequestNode is the node of the pod, whose daemon carries out the request. Filled in by the operator, immutable.
	LabelRequestNode = "crr.apps.kruise.io/node-name"
	// LabelRequestActive is "true" until the request is completed. Filled in and removed by the operator.
	LabelRequestActive = "crr.apps.kruise.io/active"
	// LabelNodeType with the value NodeTypeVirtual is on virtual nodes, and on requests for pods on them.
	LabelNodeType   = "type"
	NodeTypeVirtual = "virtual-kubelet"
	// FinalizerRequestUnready is there while the request may hold its pod not ready.
	FinalizerRequestUnready = "crr.apps.kruise.io/unready-acquired"
)

// ContainerRecreateRequestSpec says which containers of which pod are restarted. It cannot be changed.
type ContainerRecreateRequestSpec struct {
	// podName is the name of a pod in the namespace of the request. It has to exist and to be on a node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	PodName string `json:"podName"`

	// containers are the containers to restart, in the order in which they are stopped: regular ones, and init containers with
	// restartPolicy Always.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Containers []ContainerRecreateRequestContainer `json:"containers"`

	// strategy says how they are restarted. When omitted, its fields have their defaults.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Strategy *ContainerRecreateRequestStrategy `json:"strategy,omitempty"`

	// activeDeadlineSeconds is how long the request may take from its creation on, in seconds, at least 3. After that it is completed as it is:
	// what is stopped stays stopped until the kubelet starts it. When omitted, there is no limit, and a container that never becomes ready
	// keeps the request, and those behind it, waiting.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// ttlSecondsAfterFinished is how long after its completion the request is deleted, in seconds. When omitted, it is kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// ContainerRecreateRequestContainer is one container to restart. All but its name is filled in by the operator, from the pod.
type ContainerRecreateRequestContainer struct {
	// name is the name of the container.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Name string `json:"name"`
	// preStop is the container's hook. Read-only.
	// +optional
	PreStop *ProbeHandler `json:"preStop,omitempty"`
	// ports are the container's, where its hook is an HTTP request. Read-only.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Ports []corev1.ContainerPort `json:"ports,omitempty"`
	// statusContext says which instance of the container is to be replaced. Read-only.
	// +optional
	StatusContext *ContainerRecreateRequestContainerContext `json:"statusContext,omitempty"`
}

// ProbeHandler is a hook of a container: one of its fields.
type ProbeHandler struct {
	// exec is a command that is run in the container.
	// +optional
	Exec *corev1.ExecAction `json:"exec,omitempty"`
	// httpGet is a request to the pod.
	// +optional
	HTTPGet *corev1.HTTPGetAction `json:"httpGet,omitempty"`
	// tcpSocket does nothing, as with the kubelet.
	// +optional
	TCPSocket *corev1.TCPSocketAction `json:"tcpSocket,omitempty"`
	// sleep waits.
	// +optional
	Sleep *corev1.SleepAction `json:"sleep,omitempty"`
}

// ContainerRecreateRequestContainerContext is an instance of a container.
type ContainerRecreateRequestContainerContext struct {
	// containerID is its ID, with the name of the runtime.
	ContainerID string `json:"containerID"`
	// restartCount is how often the container had been restarted.
	RestartCount int32 `json:"restartCount"`
}

// ContainerRecreateRequestStrategy says how containers are restarted.
type ContainerRecreateRequestStrategy struct {
	// failurePolicy says what happens when a container cannot be stopped: Fail completes the request, Ignore goes on with the next one. When
	// omitted, it is Fail.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Fail","urn:alm:descriptor:com.tectonic.ui:select:Ignore"}
	FailurePolicy ContainerRecreateRequestFailurePolicyType `json:"failurePolicy,omitempty"`
	// orderedRecreate stops a container only when the one before it is ready again. When omitted, it is false: they are stopped one after the
	// other without waiting.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:booleanSwitch"
	OrderedRecreate bool `json:"orderedRecreate,omitempty"`
	// forceRecreate restarts a container, too, that has restarted by itself since the request was created. When omitted, it is false: such a
	// container counts as restarted.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:booleanSwitch"
	ForceRecreate bool `json:"forceRecreate,omitempty"`
	// terminationGracePeriodSeconds is how long a container has for its preStop hook and to stop, in seconds. Less than 2 is 2. When omitted,
	// it is that of the pod.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
	// unreadyGracePeriodSeconds takes the pod out of service first, and waits so long before containers are stopped, in seconds. A pod without
	// the readiness gate KruisePodReady stays in service meanwhile. When omitted, containers are stopped at once.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	UnreadyGracePeriodSeconds *int64 `json:"unreadyGracePeriodSeconds,omitempty"`
	// minStartedSeconds is how long the new instance has to run and be ready before it counts as restarted, in seconds. When omitted, it is 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	MinStartedSeconds int32 `json:"minStartedSeconds,omitempty"`
}

// ContainerRecreateRequestFailurePolicyType says what happens when a container cannot be stopped.
// +kubebuilder:validation:Enum="";Fail;Ignore
type ContainerRecreateRequestFailurePolicyType string

const (
	// RecreateFail completes the request.
	RecreateFail ContainerRecreateRequestFailurePolicyType = "Fail"
	// RecreateIgnore goes on with the next container.
	RecreateIgnore ContainerRecreateRequestFailurePolicyType = "Ignore"
)

// ContainerRecreateRequestPhase is how far a request, or one container of it, is.
// +kubebuilder:validation:Enum="";Pending;Recreating;Succeeded;Failed;Completed
type ContainerRecreateRequestPhase string

const (
	// RecreatePending waits: a request for another one of the same pod, a container to be stopped.
	RecreatePending ContainerRecreateRequestPhase = "Pending"
	// RecreateRecreating is at work: a container has stopped, and its new instance is not ready yet.
	RecreateRecreating ContainerRecreateRequestPhase = "Recreating"
	// RecreateSucceeded is a container whose new instance is ready.
	RecreateSucceeded ContainerRecreateRequestPhase = "Succeeded"
	// RecreateFailed is a container that could not be stopped, or that is not started again.
	RecreateFailed ContainerRecreateRequestPhase = "Failed"
	// RecreateCompleted is a request that is over. It does not say that it succeeded: the condition Succeeded does.
	RecreateCompleted ContainerRecreateRequestPhase = "Completed"
)

// ContainerRecreateRequestStatus is what was last observed of a request.
type ContainerRecreateRequestStatus struct {
	// observedGeneration is the generation of the spec that the conditions are about.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is empty until the node's daemon has seen the request, then Pending or Recreating, and Completed in the end, whether it succeeded
	// or not.
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Phase ContainerRecreateRequestPhase `json:"phase"`
	// completionTime is when it was completed.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// message says why a request was completed that the daemon did not finish.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	Message string `json:"message,omitempty"`
	// containerRecreateStates say how far each container is.
	// +optional
	// +listType=atomic
	// +operator-sdk:csv:customresourcedefinitions:type=status
	ContainerRecreateStates []ContainerRecreateRequestContainerRecreateState `json:"containerRecreateStates,omitempty"`
	// containerStatusSnapshot is what the kubelet says of the new instances.
	// +optional
	// +listType=atomic
	// +operator-sdk:csv:customresourcedefinitions:type=status
	ContainerStatusSnapshot []ContainerRecreateRequestSyncContainerStatus `json:"containerStatusSnapshot,omitempty"`
	// conditions say how the request ended, or what it waits for.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:io.kubernetes.conditions"
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ContainerRecreateRequestContainerRecreateState is how far one container is.
type ContainerRecreateRequestContainerRecreateState struct {
	// name is the name of the container.
	Name string `json:"name"`
	// phase is Pending, Recreating, Succeeded or Failed.
	Phase ContainerRecreateRequestPhase `json:"phase"`
	// message says why it waits or has failed.
	// +optional
	Message string `json:"message,omitempty"`
	// isKilled says that the daemon has stopped it. Otherwise it restarted by itself.
	// +optional
	IsKilled bool `json:"isKilled,omitempty"`
	// containerID is the instance that the daemon stops or has stopped. It is written before, so that nothing is stopped twice.
	// +optional
	ContainerID string `json:"containerID,omitempty"`
}

// ContainerRecreateRequestSyncContainerStatus is what the kubelet says of a container.
type ContainerRecreateRequestSyncContainerStatus struct {
	// name is the name of the container.
	Name string `json:"name"`
	// ready says whether it is ready.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// restartCount is how often it was restarted.
	// +optional
	RestartCount int32 `json:"restartCount,omitempty"`
	// containerID is the instance.
	// +optional
	ContainerID string `json:"containerID,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=containerrecreaterequests,scope=Namespaced,shortName=crr,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="ContainerRecreateRequest",order=17,resources={{Pod,v1,""},{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="PHASE",type="string",JSONPath=".status.phase",description="How far the request is."
// +kubebuilder:printcolumn:name="POD",type="string",JSONPath=".spec.podName",description="The pod."
// +kubebuilder:printcolumn:name="NODE",type="string",JSONPath=".metadata.labels.crr\\.apps\\.kruise\\.io/node-name",description="The node of the pod."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="SUCCEEDED",type="string",JSONPath=".status.conditions[?(@.type=='Succeeded')].status",description="Whether all containers were restarted."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."
// +kubebuilder:selectablefield:JSONPath=.spec.podName
// +kubebuilder:selectablefield:JSONPath=.status.phase

// ContainerRecreateRequest restarts containers of a running pod in place, once. The pod keeps its UID, node, address and volumes.
type ContainerRecreateRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which containers of which pod are restarted.
	Spec ContainerRecreateRequestSpec `json:"spec,omitempty"`
	// status is what was last observed.
	Status ContainerRecreateRequestStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// ContainerRecreateRequestList is a list of ContainerRecreateRequests.
type ContainerRecreateRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ContainerRecreateRequest `json:"items"`
}
