// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// Condition types of a ContainerRecreateRequest.
const (
	// RecreatePreRecreateGrace is present and True since its pod was taken out of service, or would have been if it had the readiness gate.
	// unreadyGracePeriodSeconds count from its lastTransitionTime. The message says who holds the pod.
	RecreatePreRecreateGrace = "PreRecreateGrace"
	// RecreateConditionSucceeded is present once the request is completed: True when every container was restarted.
	RecreateConditionSucceeded = "Succeeded"
	// RecreateReconciling is True until the request is completed. The message says what it waits for.
	RecreateReconciling = "Reconciling"
	// RecreateStalled is True when the request failed, when the server has refused a write for it for half a minute, or when the new instance of a
	// container will hardly become ready.
	RecreateStalled = "Stalled"
)

// Reasons of the conditions of a ContainerRecreateRequest.
const (
	// ReasonRecreateGrace: the pod is out of service, and the grace period before containers are stopped has begun.
	ReasonRecreateGrace = "PreRecreateGrace"
	// ReasonWaitingForDaemon: the daemon of the node has not taken up the request.
	ReasonWaitingForDaemon = "WaitingForDaemon"
	// ReasonWaitingForRequest: another request for the same pod is carried out first.
	ReasonWaitingForRequest = "WaitingForRequest"
	// ReasonRecreating: containers are being stopped, or their new instances are not ready yet.
	ReasonRecreating = "Recreating"
	// ReasonRecreated: every container was restarted.
	ReasonRecreated = "Recreated"
	// ReasonContainersFailed: some containers were not restarted; the message names them.
	ReasonContainersFailed = "ContainersFailed"
	// ReasonPodGone: the pod has been deleted, or is being deleted.
	ReasonPodGone = "PodGone"
	// ReasonDaemonSilent: the daemon of the node did not answer in time.
	ReasonDaemonSilent = "DaemonSilent"
	// ReasonRecreateEnded: the daemon ended the request without restarting the containers; status.message says why.
	ReasonRecreateEnded = "Ended"
)
