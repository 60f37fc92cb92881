// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// Condition types of a BatchRelease.
const (
	// BatchReleaseReconciling is True until the batches that may begin are done, and while the workload gets its own strategy back.
	BatchReleaseReconciling = "Reconciling"
	// BatchReleaseStalled is True when the release needs you.
	BatchReleaseStalled = "Stalled"
)

// Reasons of the conditions of a BatchRelease, beside ProgressDeadlineExceeded and those that all kinds share.
const (
	// ReasonBatchUpgrading: pods of the batch get the new version.
	ReasonBatchUpgrading = "BatchUpgrading"
	// ReasonBatchVerifying: the pods of the batch have it, and become ready.
	ReasonBatchVerifying = "BatchVerifying"
	// ReasonBatchReady: the batch is done, and the next one has not been ordered.
	ReasonBatchReady = "BatchReady"
	// ReasonBatchFinalizing: the workload gets its own strategy back.
	ReasonBatchFinalizing = "Finalizing"
	// ReasonUnsupportedWorkload: the workload or the style of the release cannot be carried out.
	ReasonUnsupportedWorkload = "UnsupportedWorkload"
	// ReasonControlledByOther: another BatchRelease has the workload.
	ReasonControlledByOther = "ControlledByOther"
	// ReasonOtherTemplate: the template has changed since the batches began.
	ReasonOtherTemplate = "OtherTemplate"
)
