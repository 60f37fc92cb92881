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
	// InjectPath and a revision's name are the webhook's path.
	InjectPath = "/inject-pods/"
	// AnnouncedAnnotation marks the revision of a set not yet stored, by the set's UID. Anybody
	// can announce one, so pods get nothing before the set is stored. The leader removes it.
	AnnouncedAnnotation = "operator.kruise.io/announced-for"
	// AnnouncedLabel replaces the set's name in such a revision's label. It is not a valid name.
	AnnouncedLabel = "is_announced"

	// maxLabel is the length of one label of a domain name.
	maxLabel = 63

	entryPrefix, entrySuffix = "sidecarset-", ".operator.kruise.io"
)

// EntryName names a set's webhook entry, and the policy's binding.
func EntryName(set string) string {
	label := entryPrefix + set
	if len(label) > maxLabel {
		sum := sha256.Sum256([]byte(set))
		label = label[:maxLabel-9] + "-" + hex.EncodeToString(sum[:])[:8]
	}
	return label + entrySuffix
}

// FailurePolicy is the one for pods while the operator does not answer, chosen by annotations.
func FailurePolicy(annotations map[string]string) admissionv1.FailurePolicyType {
	if annotations[shared.AnnotationInjectionFailurePolicy] == string(admissionv1.Ignore) {
		return admissionv1.Ignore
	}
	return admissionv1.Fail
}
