// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodProbeMarkerSpec says which containers are probed, and where the results are written.
type PodProbeMarkerSpec struct {
	// selector chooses pods of the same namespace by their labels. It must not be empty, and cannot be changed.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors="urn:alm:descriptor:com.tectonic.ui:selector:core:v1:Pod"
	Selector *metav1.LabelSelector `json:"selector"`
	// probes are carried out on every pod that is chosen, at least 1 and at most 32. When one is removed, its labels and annotations are removed
	// from the pods, except on virtual nodes. Its condition stays as it is.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	Probes []PodContainerProbe `json:"probes"`
}

// PodContainerProbe is one probe of one container.
type PodContainerProbe struct {
	// name is another one for each probe. It has no # in it and is not the type of a condition that Kubernetes or this operator writes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// containerName is the container of the pod in which the command runs or that has the port. It has to be running, and must not be an init container.
	// Pods without it are not probed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ContainerName string `json:"containerName"`
	// probe is what to do: exactly one of exec, httpGet and tcpSocket. It runs apart from the probes of the pod and does not touch its
	// readiness. Defaults are those of Kubernetes: every 10 seconds (periodSeconds), each for 1 second at most (timeoutSeconds), failed after
	// 3 failures in a row (failureThreshold), succeeded after 1 success (successThreshold). httpGet.scheme is HTTP when omitted, and goes to the
	// address of the pod, as tcpSocket does; ports are a number, or a name of one of the container's. terminationGracePeriodSeconds has no effect.
	Probe corev1.Probe `json:"probe"`
	// markerPolicy says which labels and annotations pods get while the probe succeeds or fails. They are removed in the other state, while
	// nothing is known, and when the marker is deleted or does not choose the pod any more.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	MarkerPolicy []ProbeMarkerPolicy `json:"markerPolicy,omitempty"`
	// podConditionType is the type of the pod condition with the result: True while the probe succeeds, else False. It may be empty if there is
	// a markerPolicy. It stays on the pod when the marker is deleted.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	PodConditionType string `json:"podConditionType,omitempty"`
}

// ProbeMarkerPolicy is what pods carry while a probe is in one state.
type ProbeMarkerPolicy struct {
	// state is Succeeded or Failed, and another one in each entry.
	State ProbeState `json:"state"`
	// labels are set in that state; at most 32.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Labels map[string]string `json:"labels,omitempty"`
	// annotations are set in that state; at most 32.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ProbeState is what a probe says of a container.
type ProbeState string

const (
	// ProbeSucceeded says that as many probes in a row have succeeded as successThreshold asks for.
	ProbeSucceeded ProbeState = "Succeeded"
	// ProbeFailed says that as many probes in a row have failed as failureThreshold asks for, or the container does not run.
	ProbeFailed ProbeState = "Failed"
	// ProbeUnknown says that the container is another one, or the probe has changed, and there is no result yet.
	ProbeUnknown ProbeState = "Unknown"
)

// FinalizerPodProbeMarker keeps a PodProbeMarker until no node works for it any more.
const FinalizerPodProbeMarker = "kruise.io/node-pod-probe-cleanup"

// PodProbeMarkerStatus says how far a marker is carried out.
type PodProbeMarkerStatus struct {
	// observedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// matchedPods is how many pods are chosen that are initialized, on a node, and not over.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status
	MatchedPods int64 `json:"matchedPods"`
	// conditions say whether all chosen pods are probed, and what keeps them from being.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors="urn:alm:descriptor:io.kubernetes.conditions"
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Condition types of a PodProbeMarker.
const (
	// PodProbeMarkerReconciling is True while nodes have not begun to probe all chosen pods. Tools that wait for an object look at it and at
	// Stalled.
	PodProbeMarkerReconciling = "Reconciling"
	// PodProbeMarkerStalled is True when the marker needs attention: some probes cannot be carried out, or nothing carries them out.
	PodProbeMarkerStalled = "Stalled"
)

// Reasons of the conditions of a PodProbeMarker.
const (
	// ReasonProbing: every chosen pod is probed.
	ReasonProbing = "Probing"
	// ReasonWaitingForResults: some probes have no result yet.
	ReasonWaitingForResults = "WaitingForResults"
	// ReasonMarking: results are not on all pods yet.
	ReasonMarking = "Marking"
	// ReasonNoMatchingPod: no pod is chosen.
	ReasonNoMatchingPod = "NoMatchingPod"
	// ReasonProbesOff: the feature gate, or the kind NodePodProbe, is off.
	ReasonProbesOff = "ProbesOff"
	// ReasonNodeDaemonOff: no node daemon runs on nodes of chosen pods.
	ReasonNodeDaemonOff = "NodeDaemonOff"
	// ReasonNodeDaemonSilent: there should be results by now, and there are none.
	ReasonNodeDaemonSilent = "NodeDaemonSilent"
	// ReasonProbeNotPossible: chosen pods do not have the container or the port of a probe.
	ReasonProbeNotPossible = "ProbeNotPossible"
	// ReasonNodeProbesFull: the list of a node, or of a pod on it, has room for no further probe.
	ReasonNodeProbesFull = "NodeProbesFull"
	// ReasonNodeNotAsked: the NodePodProbe of a node does not get the probes; the server may refuse that.
	ReasonNodeNotAsked = "NodeNotAsked"
	// ReasonPodsNotMarked: pods do not get what their results say; the server may refuse that.
	ReasonPodsNotMarked = "PodsNotMarked"
	// ReasonProbeNotRun: a probe could not be carried out, so that it neither succeeds nor fails.
	ReasonProbeNotRun = "ProbeNotRun"
	// ReasonConditionTaken: another probe writes the same condition of the same pods.
	ReasonConditionTaken = "ConditionTaken"
	// ReasonVirtualNodes: chosen pods are on virtual nodes, where nothing is probed.
	ReasonVirtualNodes = "VirtualNodes"
)

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=podprobemarkers,scope=Namespaced,shortName=ppm,categories=openkruise
// +operator-sdk:csv:customresourcedefinitions:displayName="PodProbeMarker",order=23,resources={{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="MATCHED",type="integer",JSONPath=".status.matchedPods",description="The number of pods that are chosen."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."
// +kubebuilder:printcolumn:name="STALLED",type="string",JSONPath=".status.conditions[?(@.type=='Stalled')].status",description="Whether it needs you; its conditions say why."

// PodProbeMarker probes containers of running pods from their nodes, and writes the results to the pods: as a condition, and as labels and
// annotations.
type PodProbeMarker struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what to probe.
	Spec PodProbeMarkerSpec `json:"spec"`
	// status is how far that is carried out.
	// +optional
	Status PodProbeMarkerStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// PodProbeMarkerList is a list of PodProbeMarkers.
type PodProbeMarkerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodProbeMarker `json:"items"`
}
