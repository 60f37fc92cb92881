// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
)

const (
	// InjectPath is where the API server calls the operator to inject, followed by the name of a revision.
	InjectPath = "/inject-pods/"
	// WebhookConfiguration is the object that registers it. It is there only while a set needs it.
	WebhookConfiguration = "kruise-operator-pods"
	// FailurePolicyAnnotation on a SidecarSet says whether its pods are created while the operator does not answer: Fail, the default, or
	// Ignore.
	FailurePolicyAnnotation = shared.AnnotationInjectionFailurePolicy

	// maxLabel is the length of one label of a domain name.
	maxLabel = 63

	entryPrefix, entrySuffix = "sidecarset-", ".operator.kruise.io"
)

// Registration is one set that is injected by webhook.
type Registration struct {
	Set           string
	Match         Match
	Revision      string
	FailurePolicy admissionv1.FailurePolicyType
	// Guard keeps away the pods into which the policy injects; nil: none.
	Guard *Guard
}

// Entries are the entries of the webhook configuration for some sets, by name. call is how the operator is called at a path.
func Entries(sets []Registration, operatorNamespace string, call func(path string) admissionv1.WebhookClientConfig) []admissionv1.MutatingWebhook {
	sets = slices.Clone(sets)
	slices.SortFunc(sets, func(a, b Registration) int { return cmp.Compare(a.Set, b.Set) })
	entries := make([]admissionv1.MutatingWebhook, len(sets))
	for i, set := range sets {
		entries[i] = podentry.New(EntryName(set.Set), set.FailurePolicy, call(InjectPath+set.Revision))
		entries[i].NamespaceSelector = podentry.Selector(append(slices.Clone(set.Match.Namespace), podentry.NamespaceExclusions(operatorNamespace)...))
		entries[i].ObjectSelector = podentry.Selector(append(slices.Clone(set.Match.Labels), podentry.Bypass(), ProvesOnly(ProofPolicy)))
		if set.Guard != nil {
			entries[i].MatchConditions = append(entries[i].MatchConditions, admissionv1.MatchCondition{Name: BeyondPolicy, Expression: set.Guard.beyond()})
		}
	}
	return entries
}

// EntryName is the name of what registers a set: of its webhook entry, and of the binding of the policy.
func EntryName(set string) string {
	label := entryPrefix + set
	if len(label) > maxLabel {
		sum := sha256.Sum256([]byte(set))
		label = label[:maxLabel-9] + "-" + hex.EncodeToString(sum[:])[:8]
	}
	return label + entrySuffix
}

// IsEntryName says whether some set can have a name like this for what registers it.
func IsEntryName(name string) bool {
	return strings.HasPrefix(name, entryPrefix) && strings.HasSuffix(name, entrySuffix)
}

// FailurePolicy is what a SidecarSet with these annotations asks for.
func FailurePolicy(annotations map[string]string) admissionv1.FailurePolicyType {
	if annotations[FailurePolicyAnnotation] == string(admissionv1.Ignore) {
		return admissionv1.Ignore
	}
	return admissionv1.Fail
}
