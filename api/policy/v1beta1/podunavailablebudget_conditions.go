// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// Annotations and labels around PodUnavailableBudgets.
const (
	// AnnotationProtectOperations on a budget is spec.protectOperations, separated by commas. The field wins.
	AnnotationProtectOperations = "kruise.io/pub-protect-operations"
	// AnnotationProtectTotalReplicas on a budget is spec.protectTotalReplicas. The field wins.
	AnnotationProtectTotalReplicas = "pub.kruise.io/protect-total-replicas"
	// AnnotationBudgetFailurePolicy on a budget is Fail or Ignore: what happens to its pods while the operator does not answer. Fail, the default, denies
	// protected operations on ready pods. The operator copies Ignore to the pods.
	AnnotationBudgetFailurePolicy = "operator.kruise.io/disruption-failure-policy"
	// AnnotationRelatedBudget on a pod is the name of its budget. The operator writes it, and the older name with it.
	AnnotationRelatedBudget = "pub.kruise.io/related-pub"
	// AnnotationRelatedBudgetLegacy is the older name of pub.kruise.io/related-pub.
	AnnotationRelatedBudgetLegacy = "kruise.io/related-pub"
	// AnnotationNoProtect on a pod is true when no operation on it is denied.
	AnnotationNoProtect = "pub.kruise.io/no-protect"
	// LabelUnavailablePrefix begins labels of pods that count as unavailable, ready or not.
	LabelUnavailablePrefix = "unavailable-pod.kruise.io/"
)

// Condition types of a PodUnavailableBudget.
const (
	// PodUnavailableBudgetReconciling is True until the budget is in force.
	PodUnavailableBudgetReconciling = "Reconciling"
	// PodUnavailableBudgetStalled is True when something needs the user.
	PodUnavailableBudgetStalled = "Stalled"
)

// Reasons of the conditions of a PodUnavailableBudget, beside those that all kinds share.
const (
	// ReasonBudgetInForce: protected operations are checked.
	ReasonBudgetInForce = "InForce"
	// ReasonBudgetRegistering: the API server does not ask about protected operations yet.
	ReasonBudgetRegistering = "Registering"
	// ReasonBudgetNotRegistered: the API server cannot be made to ask; the workloads of this operator do.
	ReasonBudgetNotRegistered = "NotRegistered"
	// ReasonBudgetOff: the feature gates of all protected operations are off.
	ReasonBudgetOff = "GatesOff"
	// ReasonTotalUnknown: how many pods there should be cannot be found out; the message says why.
	ReasonTotalUnknown = "TotalUnknown"
	// ReasonNoPods: there is no pod to protect, so every operation is allowed.
	ReasonNoPods = "NoPods"
	// ReasonNothingProtected: no pod has to stay available, so every operation is allowed.
	ReasonNothingProtected = "NothingProtected"
)
