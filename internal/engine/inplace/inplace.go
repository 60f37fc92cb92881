// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package inplace moves a live pod to another revision without a replacement. It decides whether
// the difference allows it, what to write in which batches, and when the change has taken effect.
//
// The steps of an update are Compare, Begin, Check and Continue until done, and Finish. Its whole
// state is on the pod, in annotations and status, so every pass comes to the same answer, also
// after a restart. The next update includes an unfinished one: Begin works against the live pod.
package inplace

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Progress says how far the update of one pod in place has come.
type Progress string

const (
	// None means the pod was never updated in place, or is complete and back in service.
	None Progress = ""
	// Grace means the pod is out of service and its edit waits for the grace period.
	Grace Progress = "Grace"
	// Running means the edit was sent without proof of its effect yet, or a later batch waits.
	Running Progress = "Running"
	// Done means the effect is proven; the pod's condition and state are to say so.
	Done Progress = "Done"
	// Blocked means the update cannot go on by itself. The node may refuse a resize, or another
	// manager's update may need the node daemon.
	Blocked Progress = "Blocked"
)

// Reasons of a Status.
const (
	// ReasonGracePeriod: the edit waits for the grace period.
	ReasonGracePeriod = "GracePeriod"
	// ReasonSpecNotObserved: the kubelet has not seen the edit yet.
	ReasonSpecNotObserved = "SpecNotObserved"
	// ReasonContainerNotRestarted: a container does not run its new image yet.
	ReasonContainerNotRestarted = "ContainerNotRestarted"
	// ReasonContainerNotReady: a container of the last batch is not ready yet.
	ReasonContainerNotReady = "ContainerNotReady"
	// ReasonNextBatch: the next batch can begin.
	ReasonNextBatch = "NextBatch"
	// ReasonResizing: the node has not applied the new resources yet.
	ReasonResizing = "Resizing"
	// ReasonResizeDeferred: the node has no room for the new resources now.
	ReasonResizeDeferred = "ResizeDeferred"
	// ReasonResizeInfeasible: the node can never give the new resources.
	ReasonResizeInfeasible = "ResizeInfeasible"
	// ReasonNodeDaemon: only the node daemon can finish the update.
	ReasonNodeDaemon = "NodeDaemon"
	// ReasonMalformed: an annotation of the update is not readable.
	ReasonMalformed = "MalformedAnnotation"
)

// Options are the allowed changes in place.
type Options struct {
	// Resources allows cpu and memory of containers to change (feature gate InPlaceWorkloadVerticalScaling).
	Resources bool
	// EnvFromMetadata allows changes of metadata read by a container through its environment. It
	// needs the feature gate InPlaceUpdateEnvFromMetadata and a node daemon for the restarts.
	EnvFromMetadata bool
	// ClaimTemplates forbids it where the volume claim templates of a CloneSet have changed since (RecreatePodWhenChangeVCTInCloneSetGate).
	ClaimTemplates bool
	// ShortHash makes the revision label of pods the hash alone (DaemonSet; CloneSet with feature gate CloneSetShortHash).
	ShortHash bool
	// AsWritten: pods are made from the template as written, and an unwritten imagePullPolicy
	// follows the tag (DaemonSet).
	AsWritten bool
}

// Status is how far the update of one pod in place has come.
type Status struct {
	// Progress is the step it is at.
	Progress Progress
	// Reason is a CamelCase word for the wait; empty for None and Done.
	Reason string
	// Message is one sentence for the user; empty for None and Done.
	Message string
	// RecheckAfter is above zero when time alone could change the answer.
	RecheckAfter time.Duration
}

// containerOf returns the container of a name, or nil.
func containerOf(containers []corev1.Container, name string) *corev1.Container {
	for i := range containers {
		if containers[i].Name == name {
			return &containers[i]
		}
	}
	return nil
}
