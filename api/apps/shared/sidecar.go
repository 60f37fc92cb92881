// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package shared

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Labels and annotations of SidecarSets, and of the pods that they inject into.
const (
	// AnnotationSidecarSetHash on a SidecarSet and its revisions is the hash of its sidecars. On a pod it is a JSON object with the hash, the
	// time and the revision of each SidecarSet. Very old pods have the hash alone in place of that object.
	AnnotationSidecarSetHash = "kruise.io/sidecarset-hash"
	// AnnotationSidecarSetHashWithoutImage is the same as kruise.io/sidecarset-hash with a hash that leaves out all images.
	AnnotationSidecarSetHashWithoutImage = "kruise.io/sidecarset-hash-without-image"
	// AnnotationSidecarSetInjectedList on a pod names the SidecarSets that were injected, sorted, with commas between them.
	AnnotationSidecarSetInjectedList = "kruise.io/sidecarset-injected-list"
	// AnnotationSidecarSetInPlaceState on a pod records the last update in place of its sidecars, as JSON for each SidecarSet.
	AnnotationSidecarSetInPlaceState = "kruise.io/sidecarset-inplace-update-state"
	// AnnotationSidecarSetInPlaceEvidence on a pod records how the operator recognizes that this update has taken effect, as JSON for each
	// SidecarSet.
	AnnotationSidecarSetInPlaceEvidence = "operator.kruise.io/sidecarset-inplace-evidence"
	// AnnotationSidecarSetWorkingContainer on a pod says which of the two containers of each hot upgraded sidecar works, as a JSON object.
	AnnotationSidecarSetWorkingContainer = "kruise.io/sidecarset-working-hotupgrade-container"
	// AnnotationSidecarSetVersionPrefix is the prefix of a key that ends with the name of a container of a hot upgraded pair. The value is the
	// version of that container: a decimal number, "0" while it is idle.
	AnnotationSidecarSetVersionPrefix = "version.sidecarset.kruise.io/"
	// AnnotationSidecarSetVersionAltPrefix is the prefix of the same key with the version of the other container of the pair.
	AnnotationSidecarSetVersionAltPrefix = "versionalt.sidecarset.kruise.io/"
	// AnnotationSidecarSetCanary with the value "true" on a SidecarSet makes it a variant of the set that apps.kruise.io/sidecarset-base names:
	// pods that it matches do not get the sidecars of that set.
	AnnotationSidecarSetCanary = "apps.kruise.io/sidecarset-canary"
	// AnnotationSidecarSetBase names the SidecarSet that this one is a variant of.
	AnnotationSidecarSetBase = "apps.kruise.io/sidecarset-base"
	// AnnotationInjectionFailurePolicy on a SidecarSet says what happens to pods that need the operator's webhook while it does not answer: with
	// "Fail", the default, they are refused; with "Ignore" they are created without the sidecars.
	AnnotationInjectionFailurePolicy = "operator.kruise.io/injection-failure-policy"

	// LabelAdmission with the value "bypass" on a pod or on its namespace exempts it from all webhooks and policies of the operator for pods.
	LabelAdmission = "operator.kruise.io/admission"
	// LabelSidecarSetName on a ControllerRevision names its SidecarSet.
	LabelSidecarSetName = "kruise.io/sidecarset-name"
	// LabelSidecarSetCustomVersion on a ControllerRevision, and on a v1alpha1 SidecarSet, is what spec.customVersion is in v1beta1.
	LabelSidecarSetCustomVersion = "apps.kruise.io/sidecarset-custom-version"
)

// SidecarSetUpgradable is the type of a condition of pods: whether the images of their sidecars can be updated. Its message is a JSON
// object of true or false by the name of the SidecarSet.
const SidecarSetUpgradable = "SidecarSetUpgradable"

// Reasons of the condition SidecarSetUpgradable.
const (
	// ReasonAllSidecarSetUpgradable: they can, for all sets.
	ReasonAllSidecarSetUpgradable = "AllSidecarsetUpgradable"
	// ReasonUpdateImmutableField: a set changed in more than images.
	ReasonUpdateImmutableField = "UpdateImmutableField"
)

// Environment variables of injected containers.
const (
	// EnvIsInjected is "true" in every injected container.
	EnvIsInjected = "IS_INJECTED"
	// EnvSidecarSetVersion is the version of the container in a hot upgraded pair, EnvSidecarSetVersionAlt that of the other one.
	EnvSidecarSetVersion    = "SIDECARSET_VERSION"
	EnvSidecarSetVersionAlt = "SIDECARSET_VERSION_ALT"
)

// SidecarSetUpgrade is what a pod says of one SidecarSet in AnnotationSidecarSetHash.
type SidecarSetUpgrade struct {
	// UpdateTimestamp is when the pod got the sidecars, or last got new images.
	UpdateTimestamp metav1.Time `json:"updateTimestamp"`
	// SidecarSetHash is the hash of the sidecars.
	SidecarSetHash string `json:"hash"`
	// SidecarSetName is the name of the set.
	SidecarSetName string `json:"sidecarSetName"`
	// SidecarList are the names of its containers as the set has them, sorted; native sidecars are among them.
	SidecarList []string `json:"sidecarList"`
	// ControllerRevision is the revision of the set, where it was known.
	ControllerRevision string `json:"controllerRevision,omitempty"`
}

// SidecarSetInPlaceState is the last update of a pod's sidecars in place, running or done.
type SidecarSetInPlaceState struct {
	// Revision is the hash that the pod is moved to.
	Revision string `json:"revision"`
	// UpdateTimestamp is when this update began.
	UpdateTimestamp metav1.Time `json:"updateTimestamp"`
	// LastContainerStatuses holds the state before the edit of the containers whose image changes.
	LastContainerStatuses map[string]InPlaceContainerStatus `json:"lastContainerStatuses"`
}
