// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// Condition types of a PersistentPodState.
const (
	// PersistentPodStateReconciling is False, since places are recorded at once. Its reason says how it is.
	PersistentPodStateReconciling = "Reconciling"
	// PersistentPodStateStalled is True when something needs the user.
	PersistentPodStateStalled = "Stalled"
)

// Reasons of the conditions of a PersistentPodState, beside those that workloads share.
const (
	// ReasonRemembering: the places of the pods are recorded, and new pods return to them.
	ReasonRemembering = "Remembering"
	// ReasonTargetUnsupported: the kind of the workload is not supported, or cannot be read.
	ReasonTargetUnsupported = "TargetUnsupported"
	// ReasonPlaceTaken: pods wait for their places; the message says which, and what to do.
	ReasonPlaceTaken = "PodsWaitForTheirPlace"
	// ReasonPlaceGone: nodes of recorded places are gone. Pods start elsewhere instead.
	ReasonPlaceGone = "PlaceGone"
	// ReasonTooManyPods: the places of some pods do not fit into the status.
	ReasonTooManyPods = "TooManyPods"
	// ReasonNotSteered: new pods are not asked about; the message says why.
	ReasonNotSteered = "NotSteered"
)
