// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package injection_test

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
)

// newEntry is an entry of a webhook configuration for new pods, except for mirrors of running ones. The
// API server waits ten seconds for an answer, and then follows the failure policy. The caller
// chooses the pods.
func newEntry(name string, onFailure admissionv1.FailurePolicyType, call admissionv1.WebhookClientConfig) admissionv1.MutatingWebhook {
	return admissionv1.MutatingWebhook{
		Name:         name,
		ClientConfig: call,
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule: admissionv1.Rule{
				APIGroups: []string{corev1.GroupName}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: ptr.To(admissionv1.NamespacedScope),
			},
		}},
		FailurePolicy:  &onFailure,
		MatchPolicy:    ptr.To(admissionv1.Equivalent),
		SideEffects:    ptr.To(admissionv1.SideEffectClassNone),
		TimeoutSeconds: ptr.To[int32](10),
		// Containers of later webhooks are seen. Labels are not: a pod without a match is never
		// called again.
		ReinvocationPolicy:      ptr.To(admissionv1.IfNeededReinvocationPolicy),
		AdmissionReviewVersions: []string{"v1"},
		MatchConditions: []admissionv1.MatchCondition{{
			Name: "not-a-mirror-pod", Expression: `!('` + podentry.MirrorAnnotation + `' in object.metadata.?annotations.orValue({}))`,
		}},
	}
}
