// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// ResourceDistributionConditionType is what a condition of a ResourceDistribution is about.
type ResourceDistributionConditionType string

// Condition types of a ResourceDistribution, in the order of the status.
const (
	// ResourceDistributionGetResourceFailed is True while a copy cannot be read.
	ResourceDistributionGetResourceFailed ResourceDistributionConditionType = "GetResourceFailed"
	// ResourceDistributionCreateResourceFailed is True while the server refuses to create a copy.
	ResourceDistributionCreateResourceFailed ResourceDistributionConditionType = "CreateResourceFailed"
	// ResourceDistributionUpdateResourceFailed is True while the server refuses to update a copy.
	ResourceDistributionUpdateResourceFailed ResourceDistributionConditionType = "UpdateResourceFailed"
	// ResourceDistributionDeleteResourceFailed is True while the server refuses to delete a copy that is no longer to be there.
	ResourceDistributionDeleteResourceFailed ResourceDistributionConditionType = "DeleteResourceFailed"
	// ResourceDistributionConflictOccurred is True while an object of somebody else has the name of a copy. It is left alone.
	ResourceDistributionConflictOccurred ResourceDistributionConditionType = "ConflictOccurred"
	// ResourceDistributionNamespaceNotExists is True while a namespace of includedNamespaces is missing or terminating.
	ResourceDistributionNamespaceNotExists ResourceDistributionConditionType = "NamespaceNotExists"
	// ResourceDistributionReconciling is True while copies are written. Tools that wait for an object look at it and at Stalled.
	ResourceDistributionReconciling ResourceDistributionConditionType = "Reconciling"
	// ResourceDistributionStalled is True when the distribution needs attention, and the message says why.
	ResourceDistributionStalled ResourceDistributionConditionType = "Stalled"
)

// Reasons of the conditions of a ResourceDistribution.
const (
	// ReasonSucceeded: nothing of the kind has failed.
	ReasonSucceeded = "Succeeded"
	// ReasonDistributing: copies are being written.
	ReasonDistributing = "Distributing"
	// ReasonDistributed: every namespace has an up to date copy.
	ReasonDistributed = "Distributed"
	// ReasonDistributionFailed: the copy of some namespace is missing or out of date.
	ReasonDistributionFailed = "DistributionFailed"
)
