// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// UnitedDeploymentConditionType is what a condition of a UnitedDeployment is about.
type UnitedDeploymentConditionType string

// Condition types of a UnitedDeployment.
const (
	// UnitedDeploymentSubsetProvisioned is False while a workload cannot be created or deleted.
	UnitedDeploymentSubsetProvisioned UnitedDeploymentConditionType = "SubsetProvisioned"
	// UnitedDeploymentSubsetUpdated is False while a workload cannot be changed.
	UnitedDeploymentSubsetUpdated UnitedDeploymentConditionType = "SubsetUpdated"
	// UnitedDeploymentSubsetFailure is present and True while something fails; the message names the subsets. The others go on.
	UnitedDeploymentSubsetFailure UnitedDeploymentConditionType = "SubsetFailure"
	// UnitedDeploymentUpdated is True when every pod is at the updated revision and ready.
	UnitedDeploymentUpdated UnitedDeploymentConditionType = "UnitedDeploymentUpdated"
	// UnitedDeploymentReconciling is True while workloads are created, changed or deleted, or their pods become ready. Otherwise its reason
	// says why nothing moves. Tools that wait for an object look at it and at Stalled.
	UnitedDeploymentReconciling UnitedDeploymentConditionType = "Reconciling"
	// UnitedDeploymentStalled is True when something cannot go on until the user changes something.
	UnitedDeploymentStalled UnitedDeploymentConditionType = "Stalled"
	// UnitedDeploymentReplicasAdjusted is present and True while the replicas of the subsets do not add up to spec.replicas; they are cut or
	// filled up in their order.
	UnitedDeploymentReplicasAdjusted UnitedDeploymentConditionType = "ReplicasAdjusted"
)

// UnitedDeploymentSubsetConditionType is what a condition of a subset is about.
type UnitedDeploymentSubsetConditionType string

// SubsetSchedulable is False while the pods of a subset find no node, and more are created elsewhere.
const SubsetSchedulable UnitedDeploymentSubsetConditionType = "Schedulable"

// Reasons of the conditions of a UnitedDeployment. The others share their reasons with those of a StatefulSet.
const (
	// ReasonUnitedDeploymentError: a request was refused, or a subset cannot be made from its fields.
	ReasonUnitedDeploymentError = "Error"
	// ReasonUnitedDeploymentUpdating: pods are not at the updated revision, or not ready.
	ReasonUnitedDeploymentUpdating = "UnitedDeploymentRevisionUpdating"
	// ReasonUnitedDeploymentPodsNotReady: pods are missing or not ready, as after scaling, and no revision is being rolled out.
	ReasonUnitedDeploymentPodsNotReady = "UnitedDeploymentPodsNotReady"
	// ReasonUnitedDeploymentUpdated: every pod is at the updated revision and ready.
	ReasonUnitedDeploymentUpdated = "UnitedDeploymentRevisionUpdated"
	// ReasonSubsetStalled: a workload says that it is stalled.
	ReasonSubsetStalled = "SubsetStalled"
	// ReasonNoRoom: every subset has an upper bound, and there are more pods.
	ReasonNoRoom = "NoRoom"
	// ReasonReplicasAdjusted: the sizes of the subsets do not add up to spec.replicas.
	ReasonReplicasAdjusted = "ReplicasDoNotAddUp"
	// ReasonSubsetRemoved: workloads of subsets that were taken out wait for their replacements.
	ReasonSubsetRemoved = "WaitingForReplacements"
)

// Reasons of the condition Schedulable of a subset.
const (
	// ReasonReschedule: pods of the subset find no node, or other subsets run replacements for them; where the status is True, every pod has found
	// one.
	ReasonReschedule = "reschedule"
	// ReasonRecover: the subset is tried again.
	ReasonRecover = "recover"
	// ReasonSubsetCreated: the subset is new, and it is not known yet whether its pods can be scheduled.
	ReasonSubsetCreated = "created"
)
