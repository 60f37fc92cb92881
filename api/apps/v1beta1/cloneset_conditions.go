// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// CloneSetConditionType is what a condition of a CloneSet is about.
type CloneSetConditionType string

// Condition types of a CloneSet.
const (
	// CloneSetFailedScale is present and True while the server refuses to create or delete a pod, or a volume claim.
	CloneSetFailedScale CloneSetConditionType = "FailedScale"
	// CloneSetFailedUpdate is present and True while a pod cannot be moved to another revision, or the revision of the template
	// cannot be created.
	CloneSetFailedUpdate CloneSetConditionType = "FailedUpdate"
	// CloneSetProgressing is present while progressDeadlineSeconds is set. It is False when a rollout made no progress for that long.
	CloneSetProgressing CloneSetConditionType = "Progressing"
	// CloneSetAvailable is True while no more pods are unavailable than updateStrategy.rollingUpdate.maxUnavailable allows, and
	// at least one is available.
	CloneSetAvailable CloneSetConditionType = "Available"
	// CloneSetReconciling is True while pods are being created, updated or deleted or become available. Otherwise its reason says
	// why nothing moves. Tools that wait for an object look at it and at Stalled.
	CloneSetReconciling CloneSetConditionType = "Reconciling"
	// CloneSetStalled is True when nothing can move until the user changes something, or a pod will hardly become ready by itself.
	CloneSetStalled CloneSetConditionType = "Stalled"
	// CloneSetTemplateInvalid is present and True while the server finds faults in the pod template; the message lists them.
	CloneSetTemplateInvalid CloneSetConditionType = "TemplateInvalid"
	// CloneSetFieldsIgnored is present and True while the set asks for something that has no effect: its feature gate is off, or
	// this version cannot do it.
	CloneSetFieldsIgnored CloneSetConditionType = "FieldsIgnored"
	// CloneSetImagePreDownload is present during a rollout while the feature gate PreDownloadImageForInPlaceUpdate is on. It is True while
	// images are pulled ahead of the update; otherwise its reason says why they are not. The rollout does not depend on it.
	CloneSetImagePreDownload CloneSetConditionType = "ImagePreDownload"
	// CloneSetPodsWithoutReadinessGate is present and True while updates are made in place and some pods have no readiness gate
	// InPlaceUpdateReady: they stay in service meanwhile. The message counts them.
	CloneSetPodsWithoutReadinessGate CloneSetConditionType = "PodsWithoutReadinessGate"
	// CloneSetPodsHeldNotReady is present and True while others hold pods out of service through the readiness gate KruisePodReady. The message
	// names them.
	CloneSetPodsHeldNotReady CloneSetConditionType = "PodsHeldNotReady"
)

// Reasons of the condition Progressing of a CloneSet. The other conditions share their reasons with those of a StatefulSet.
const (
	// ReasonCloneSetAvailable: every pod is at the update revision and available.
	ReasonCloneSetAvailable = "CloneSetAvailable"
	// ReasonCloneSetPaused: updates are paused, and the deadline does not run.
	ReasonCloneSetPaused = "CloneSetPaused"
	// ReasonProgressPartitionAvailable: all pods that the partition does not keep are at the update revision and available.
	ReasonProgressPartitionAvailable = "ProgressPartitionAvailable"
	// ReasonCloneSetUpdated: the rollout goes on, and the deadline has not passed.
	ReasonCloneSetUpdated = "CloneSetUpdated"
	// ReasonProgressDeadlineExceeded: the rollout made no progress for progressDeadlineSeconds.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
)
