// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// DaemonSetConditionType is what a condition of a DaemonSet is about.
type DaemonSetConditionType string

// Condition types of a DaemonSet.
const (
	// DaemonSetFailedScale is present and True while the server refuses to create or delete a pod.
	DaemonSetFailedScale DaemonSetConditionType = "FailedScale"
	// DaemonSetFailedUpdate is present and True while a pod cannot be moved to another revision, or the revision of the template
	// cannot be created.
	DaemonSetFailedUpdate DaemonSetConditionType = "FailedUpdate"
	// DaemonSetAvailable is True while no more nodes lack an available pod than updateStrategy.rollingUpdate.maxUnavailable allows, and
	// at least one has one.
	DaemonSetAvailable DaemonSetConditionType = "Available"
	// DaemonSetReconciling is True while pods are being created, updated or deleted or become available. Otherwise its reason says
	// why nothing moves. Tools that wait for an object look at it and at Stalled.
	DaemonSetReconciling DaemonSetConditionType = "Reconciling"
	// DaemonSetStalled is True when nothing can move until the user changes something, or a pod will hardly become ready by itself.
	DaemonSetStalled DaemonSetConditionType = "Stalled"
	// DaemonSetTemplateInvalid is present and True while the server finds faults in the pod template; the message lists them.
	DaemonSetTemplateInvalid DaemonSetConditionType = "TemplateInvalid"
	// DaemonSetFieldsIgnored is present and True while the set asks for something that has no effect: its feature gate is off, or
	// this version cannot do it.
	DaemonSetFieldsIgnored DaemonSetConditionType = "FieldsIgnored"
	// DaemonSetImagePreDownload is present during a rollout while the feature gate PreDownloadImageForDaemonSetUpdate is on. It is True
	// while images are pulled ahead of the update; otherwise its reason says why they are not. The rollout does not depend on it.
	DaemonSetImagePreDownload DaemonSetConditionType = "ImagePreDownload"
	// DaemonSetPodsWithoutReadinessGate is present and True while updates are made in place and some pods have no readiness gate
	// InPlaceUpdateReady: they are replaced instead. The message counts them.
	DaemonSetPodsWithoutReadinessGate DaemonSetConditionType = "PodsWithoutReadinessGate"
	// DaemonSetPodsHeldNotReady is present and True while others hold pods out of service through the readiness gate KruisePodReady. The message
	// names them.
	DaemonSetPodsHeldNotReady DaemonSetConditionType = "PodsHeldNotReady"
)

// ReasonNoNode is the reason of Reconciling when no node should run a pod of the set. The message says why.
const ReasonNoNode = "NoNode"
