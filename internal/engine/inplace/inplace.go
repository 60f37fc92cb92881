// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package inplace decides how a live pod is moved to another revision without being replaced: whether the difference
// allows it, what to write and in which batches, and when the change has taken effect.
//
// The steps of an update are Compare, Begin, Check and Continue until done, and Finish. Its whole state is on the pod, in annotations and
// status, so every pass, also after a restart, comes to the same answer. If an earlier update is unfinished, the next one includes it: Begin
// computes what to write against the live pod.
package inplace

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Progress says how far the update of one pod in place has come.
type Progress string

const (
	// None means that the pod was never updated in place, or its last update is complete and the pod is back in service.
	None Progress = ""
	// Grace means that the pod is out of service and its edit waits for the grace period to pass.
	Grace Progress = "Grace"
	// Running means that the edit was sent and its effect is not proven yet, or a later batch waits.
	Running Progress = "Running"
	// Done means that the effect is proven; the pod waits for its condition and state to say so.
	Done Progress = "Done"
	// Blocked means that the update cannot go on by itself, for example a resize that the node refuses or an update that another manager began
	// and that needs the node daemon.
	Blocked Progress = "Blocked"
)

// Reasons of a Status.
const (
	// ReasonGracePeriod says that the edit waits for the grace period to pass.
	ReasonGracePeriod = "GracePeriod"
	// ReasonSpecNotObserved says that the kubelet has not seen the edit yet.
	ReasonSpecNotObserved = "SpecNotObserved"
	// ReasonContainerNotRestarted says that a container does not run its new image yet.
	ReasonContainerNotRestarted = "ContainerNotRestarted"
	// ReasonContainerNotReady says that a container of the batch before the next is not ready yet.
	ReasonContainerNotReady = "ContainerNotReady"
	// ReasonNextBatch says that the next batch can begin.
	ReasonNextBatch = "NextBatch"
	// ReasonResizing says that the node has not applied the new resources yet.
	ReasonResizing = "Resizing"
	// ReasonResizeDeferred says that the node has no room for the new resources now.
	ReasonResizeDeferred = "ResizeDeferred"
	// ReasonResizeInfeasible says that the node can never give the new resources.
	ReasonResizeInfeasible = "ResizeInfeasible"
	// ReasonNodeDaemon says that only the node daemon can finish the update.
	ReasonNodeDaemon = "NodeDaemon"
	// ReasonMalformed says that an annotation that says how the update goes on is not readable.
	ReasonMalformed = "MalformedAnnotation"
)

// Options says what may change in place.
type Options struct {
	// Resources allows cpu and memory of containers to change (feature gate InPlaceWorkloadVerticalScaling).
	Resources bool
	// EnvFromMetadata allows metadata to change that a container reads through its environment. It needs the feature gate
	// InPlaceUpdateEnvFromMetadata and a node daemon that restarts such containers.
	EnvFromMetadata bool
	// ClaimTemplates forbids it where the volume claim templates of a CloneSet have changed since (RecreatePodWhenChangeVCTInCloneSetGate).
	ClaimTemplates bool
	// ShortHash makes the revision label of pods the hash alone (DaemonSet; CloneSet with feature gate CloneSetShortHash).
	ShortHash bool
	// AsWritten says that pods are made from the template as it is written: an imagePullPolicy that it leaves out follows the tag (DaemonSet).
	AsWritten bool
}

// Status is how far the update of one pod in place has come.
type Status struct {
	// Progress is the step it is at.
	Progress Progress
	// Reason is a CamelCase word that says what it waits for; empty for None and Done.
	Reason string
	// Message is one sentence for the user; empty for None and Done.
	Message string
	// RecheckAfter is above zero when time alone could change the answer.
	RecheckAfter time.Duration
}

// containerOf returns the container of that name, nil if there is none.
func containerOf(containers []corev1.Container, name string) *corev1.Container {
	for i := range containers {
		if containers[i].Name == name {
			return &containers[i]
		}
	}
	return nil
}
