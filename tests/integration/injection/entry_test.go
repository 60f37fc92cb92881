// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package injection_test

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// newEntry calls a webhook for new pods; the caller chooses the pods.
func newEntry(name string, call admissionv1.WebhookClientConfig) admissionv1.MutatingWebhook {
	return admissionv1.MutatingWebhook{
		Name:         name,
		ClientConfig: call,
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule: admissionv1.Rule{
				APIGroups: []string{corev1.GroupName}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: ptr.To(admissionv1.NamespacedScope),
			},
		}},
		FailurePolicy:           ptr.To(admissionv1.Fail),
		MatchPolicy:             ptr.To(admissionv1.Equivalent),
		SideEffects:             ptr.To(admissionv1.SideEffectClassNone),
		TimeoutSeconds:          ptr.To[int32](10),
		ReinvocationPolicy:      ptr.To(admissionv1.IfNeededReinvocationPolicy),
		AdmissionReviewVersions: []string{"v1"},
	}
}
