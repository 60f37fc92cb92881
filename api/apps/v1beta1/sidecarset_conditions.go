// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// SidecarSetConditionType is what a condition of a SidecarSet is about.
type SidecarSetConditionType string

// Condition types of a SidecarSet.
const (
	// SidecarSetReconciling is True while pods are being updated or become ready. Otherwise its reason says why nothing moves. Tools that
	// wait for an object look at it and at Stalled.
	SidecarSetReconciling SidecarSetConditionType = "Reconciling"
	// SidecarSetStalled is True when nothing can move until the user changes something, or a sidecar will hardly become ready by itself.
	SidecarSetStalled SidecarSetConditionType = "Stalled"
	// SidecarSetNotUpgradablePods is present and True while pods have sidecars that differ from the spec in more than images. They get the
	// present ones when they are re-created.
	SidecarSetNotUpgradablePods SidecarSetConditionType = "NotUpgradablePods"
	// SidecarSetFailedUpdate is present and True while the server refuses to change a pod, or to create the revision of the spec.
	SidecarSetFailedUpdate SidecarSetConditionType = "FailedUpdate"
	// SidecarSetInjectionPath says how new pods get the sidecars, by Policy or Webhook, and whether that is in force.
	SidecarSetInjectionPath SidecarSetConditionType = "InjectionPath"
	// SidecarSetPodsWithoutSidecar is present and True while there are pods that the set selects and that do not have its sidecars.
	SidecarSetPodsWithoutSidecar SidecarSetConditionType = "PodsWithoutSidecar"
	// SidecarSetFieldsIgnored is present and True while pods keep init containers, volumes or pull secrets of an earlier spec.
	SidecarSetFieldsIgnored SidecarSetConditionType = "FieldsIgnored"
)

// Reasons of the conditions of a SidecarSet. The others are shared with those of a StatefulSet.
const (
	// ReasonNotUpdate: pods are at an old revision, and updateStrategy.type is NotUpdate.
	ReasonNotUpdate = "NotUpdate"
	// ReasonNotSelected: pods are at an old revision, and updateStrategy.selector does not select them.
	ReasonNotSelected = "NotSelected"
	// ReasonNoPods: no pod has the sidecars.
	ReasonNoPods = "NoPods"
	// ReasonNotInjected: new pods that the set selects do not get the sidecars, and the message says why. Stalled is True when that does not pass by itself.
	ReasonNotInjected = "NotInjected"
	// ReasonInjectedByPolicy: the API server injects by itself, by a policy.
	ReasonInjectedByPolicy = "Policy"
	// ReasonInjectedByWebhook: the API server asks the operator about new pods.
	ReasonInjectedByWebhook = "Webhook"
	// ReasonInjectRevisionNotFound: injectionStrategy.revision names a revision that is not in the history.
	ReasonInjectRevisionNotFound = "RevisionNotFound"
	// ReasonNoInstallationOwner: the installation has no object that is deleted with it, so nothing that could refuse pods is written.
	ReasonNoInstallationOwner = "NoInstallationOwner"
	// ReasonWebhookFull: the configuration of the webhook on pods has no room for another set.
	ReasonWebhookFull = "WebhookFull"
	// ReasonNamespaceExempt: the set selects only namespaces in which nothing is injected, such as kube-system.
	ReasonNamespaceExempt = "NamespaceExempt"
	// ReasonNotRegistered: the API server refused what the operator writes so that pods are injected; the operator tries again.
	ReasonNotRegistered = "NotRegistered"
	// ReasonCreatedWithout: pods that the set selects were created without its sidecars.
	ReasonCreatedWithout = "CreatedWithout"
	// ReasonMoreThanImages: the pods' sidecars differ from the spec in more than images.
	ReasonMoreThanImages = "MoreThanImagesChanged"
)
