// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationProbesLeftOut names the namespaces of which probes were left out of a NodePodProbe because it is full, sorted, with commas between. It is
// the operator's.
const AnnotationProbesLeftOut = "operator.kruise.io/probes-left-out"

// AnnotationProbeMarks on a pod lists the keys of the labels and annotations that it has from PodProbeMarkers, as JSON with the members labels and
// annotations. The operator removes them when no probe of the pod has them any more.
const AnnotationProbeMarks = "operator.kruise.io/probe-marks"

// NodePodProbeSpec says what a node should probe.
type NodePodProbeSpec struct {
	// podProbes are the pods of the node that are probed; at most 1024.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +operator-sdk:csv:customresourcedefinitions:type=spec
	PodProbes []PodProbe `json:"podProbes,omitempty"`
}

// PodProbe is what to probe of one pod.
type PodProbe struct {
	// name is the pod's.
	Name string `json:"name"`
	// namespace is the pod's.
	Namespace string `json:"namespace"`
	// uid is the pod's: of another pod with its name nothing is probed.
	UID string `json:"uid"`
	// IP is the pod's address, where requests and connections go.
	// +optional
	IP string `json:"IP"`
	// probes are the probes; at most 256.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Probes []ContainerProbe `json:"probes,omitempty"`
}

// ContainerProbe is one probe of one container.
type ContainerProbe struct {
	// name is that of the PodProbeMarker and that of the probe, with a # between.
	Name string `json:"name"`
	// containerName is the container.
	ContainerName string `json:"containerName"`
	// probe is what to do. Ports are numbers.
	Probe corev1.Probe `json:"probe"`
}

// NodePodProbeStatus is what the probes of the node say.
type NodePodProbeStatus struct {
	// podProbeStatuses are the results by pod.
	// +optional
	// +listType=atomic
	// +operator-sdk:csv:customresourcedefinitions:type=status
	PodProbeStatuses []PodProbeStatus `json:"podProbeStatuses,omitempty"`
}

// PodProbeStatus is what the probes of one pod say.
type PodProbeStatus struct {
	// namespace is the pod's.
	Namespace string `json:"namespace"`
	// name is the pod's.
	Name string `json:"name"`
	// uid is the pod's.
	UID string `json:"uid"`
	// probeStates are the results by probe.
	// +optional
	// +listType=atomic
	ProbeStates []ContainerProbeState `json:"probeStates,omitempty"`
}

// ContainerProbeState is what one probe says.
type ContainerProbeState struct {
	// name is that of the probe in spec.podProbes.
	Name string `json:"name"`
	// state is Succeeded, Failed or Unknown; empty as long as there was no result.
	// +optional
	State ProbeState `json:"state,omitempty"`
	// lastProbeTime is when the state or the message changed.
	// +optional
	LastProbeTime *metav1.Time `json:"lastProbeTime,omitempty"`
	// lastTransitionTime is when the state changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	// message is what the probe says, cut to 1024 bytes.
	// +optional
	Message string `json:"message,omitempty"`
	// error says why the probe could not be carried out; empty while it can be. The state stays as it was meanwhile.
	// +optional
	Error string `json:"error,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodepodprobes,scope=Cluster,shortName=npp
// +operator-sdk:csv:customresourcedefinitions:displayName="NodePodProbe",order=27,resources={{Event,events.k8s.io/v1,""}}
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="The time since creation."

// NodePodProbe is the list of pods that a node probes, and the results. It has the name of its node. The operator writes the list from the
// PodProbeMarkers, and the node daemon of the node the results; nobody else should write it.
type NodePodProbe struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what to probe.
	// +optional
	Spec NodePodProbeSpec `json:"spec,omitempty"`
	// status are the results.
	// +optional
	Status NodePodProbeStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// NodePodProbeList is a list of NodePodProbes.
type NodePodProbeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodePodProbe `json:"items"`
}
