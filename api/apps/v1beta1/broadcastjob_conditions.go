// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// Condition types of a BroadcastJob.
const (
	// BroadcastJobConditionComplete is present and True when the pods on all desired nodes have ended.
	BroadcastJobConditionComplete = "Complete"
	// BroadcastJobConditionFailed is present and True when the failure policy or the deadline has ended the job, and no pod of it is at
	// work any more.
	BroadcastJobConditionFailed = "Failed"
	// BroadcastJobConditionReconciling is True while pods are at work, or are to be created or deleted.
	BroadcastJobConditionReconciling = "Reconciling"
	// BroadcastJobConditionStalled is True when nothing can move until the user changes something.
	BroadcastJobConditionStalled = "Stalled"
	// BroadcastJobConditionFailedCreate is present and True while the server refuses to create a pod.
	BroadcastJobConditionFailedCreate = "FailedCreate"
	// BroadcastJobConditionFailedDelete is present and True while the server refuses to delete a pod, or the job after its time.
	BroadcastJobConditionFailedDelete = "FailedDelete"
)

// Reasons of the conditions of a BroadcastJob.
const (
	// ReasonJobComplete: the pods on all desired nodes have ended.
	ReasonJobComplete = "Complete"
	// ReasonJobFailed: a pod has failed, and failurePolicy.type is FailFast.
	ReasonJobFailed = "Failed"
	// ReasonDeadlineExceeded: completionPolicy.activeDeadlineSeconds is over.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonRunningPods: pods are at work, or are being started.
	ReasonRunningPods = "RunningPods"
	// ReasonStopping: the job has failed, and its pods at work are being deleted.
	ReasonStopping = "Stopping"
	// ReasonNoFittingNode: no node fits the template; the message counts the nodes by why they do not.
	ReasonNoFittingNode = "NoFittingNode"
	// ReasonPausedByFailure: a pod has failed, and failurePolicy.type is Pause; the message says how to resume.
	ReasonPausedByFailure = "PausedByFailure"
	// ReasonNoParallelism: spec.parallelism is 0, so no pod is started.
	ReasonNoParallelism = "NoParallelism"
	// ReasonServing: the pods on all nodes that fit have ended, and the job waits for further nodes.
	ReasonServing = "Serving"
)
