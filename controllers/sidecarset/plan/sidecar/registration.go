// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"crypto/sha256"
	"encoding/hex"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

const (
	// InjectPath is where the API server calls the operator to inject, followed by the name of a revision.
	InjectPath = "/inject-pods/"
	// AnnouncedAnnotation is on the revision of a set that may not be stored yet: the UID of the set. Anybody can have one announced, so pods get nothing of it
	// before that set is stored. The leader takes it away.
	AnnouncedAnnotation = "operator.kruise.io/announced-for"
	// AnnouncedLabel is the value of the label of such a revision in place of the set's name, and no name.
	AnnouncedLabel = "is_announced"
	// FailurePolicyAnnotation on a SidecarSet says whether its pods are created while the operator does not answer: Fail, the default, or
	// Ignore.
	FailurePolicyAnnotation = shared.AnnotationInjectionFailurePolicy

	// maxLabel is the length of one label of a domain name.
	maxLabel = 63

	entryPrefix, entrySuffix = "sidecarset-", ".operator.kruise.io"
)

// EntryName is the name of what registers a set: of its webhook entry, and of the binding of the policy.
func EntryName(set string) string {
	label := entryPrefix + set
	if len(label) > maxLabel {
		sum := sha256.Sum256([]byte(set))
		label = label[:maxLabel-9] + "-" + hex.EncodeToString(sum[:])[:8]
	}
	return label + entrySuffix
}

// FailurePolicy is what a SidecarSet with these annotations asks for.
func FailurePolicy(annotations map[string]string) admissionv1.FailurePolicyType {
	if annotations[FailurePolicyAnnotation] == string(admissionv1.Ignore) {
		return admissionv1.Ignore
	}
	return admissionv1.Fail
}
