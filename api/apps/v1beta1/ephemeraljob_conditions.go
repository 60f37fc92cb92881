// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// Condition types of an EphemeralJob.
const (
	// EphemeralJobInitialized is present and True from the first pass over the job on.
	EphemeralJobInitialized = "Initialized"
	// EphemeralJobMatchedEmpty is present and True while no pod can be a target.
	EphemeralJobMatchedEmpty = "MatchedEmpty"
	// EphemeralJobConditionSucceeded is present and True when the containers have succeeded in all targets.
	EphemeralJobConditionSucceeded = "JobSucceeded"
	// EphemeralJobConditionFailed is present and True when the job has ended and not all targets succeeded, or its deadline was over.
	EphemeralJobConditionFailed = "JobFailed"
	// EphemeralJobConditionError is present and True while the stored spec cannot work: nothing is done for the job.
	EphemeralJobConditionError = "JobError"
	// EphemeralJobCreateFailed is present and True while the server refuses to add the containers to a pod.
	EphemeralJobCreateFailed = "CreateFailed"
	// EphemeralJobReconciling is True while containers are at work or are to be added.
	EphemeralJobReconciling = "Reconciling"
	// EphemeralJobStalled is True when something needs the user.
	EphemeralJobStalled = "Stalled"
)

// Reasons of the conditions of an EphemeralJob, beside those that jobs share.
const (
	// ReasonMatchEmpty: no pod can be a target; the message says why.
	ReasonMatchEmpty = "MatchEmpty"
	// ReasonNoReplicas: spec.replicas is 0, so no pod is a target.
	ReasonNoReplicas = "NoReplicas"
	// ReasonEphemeralJobSucceeded: the containers have succeeded in all targets.
	ReasonEphemeralJobSucceeded = "JobSucceeded"
	// ReasonEphemeralJobFailed: the containers have failed in a target.
	ReasonEphemeralJobFailed = "JobFailed"
	// ReasonCreateFailed: the server refuses to add the containers.
	ReasonCreateFailed = "CreateFailed"
	// ReasonEphemeralJobError: the stored spec cannot work.
	ReasonEphemeralJobError = "Error"
	// ReasonInitialized: the operator has begun with the job, and knows the pods that it selects.
	ReasonInitialized = "Initialized"
	// ReasonContainersWait: containers that were added do not start; the message says why.
	ReasonContainersWait = "ContainersWait"
	// ReasonPodsNotRunning: targets have no node yet, so nothing is added to them.
	ReasonPodsNotRunning = "PodsNotRunning"
)
