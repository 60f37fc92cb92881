// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
)

const (
	// WebhookConfiguration is the object that registers the webhook for pods that may run on virtual nodes. By its name it comes after that of
	// sidecars, which may be probed.
	WebhookConfiguration = "kruise-operator-pods-probes"
	// WebhookPath is where the API server calls the operator.
	WebhookPath = "/ask-for-probes"

	// webhookTimeout is how long the API server waits for an answer, in seconds. A pod is created without probes afterwards.
	webhookTimeout = 3
	// maxNamespaces is how many namespaces the entry names. With more, it is for all of them.
	maxNamespaces = 200
)

// Provides says that the marker has a probe that the provider of a virtual node can be asked for.
func (m *Marker) Provides() bool {
	return !m.Deleting && slices.ContainsFunc(m.Probes, func(p appsv1alpha1.PodContainerProbe) bool { return p.PodConditionType != "" })
}

// Webhook is the entry of the webhook configuration: for new pods of the namespaces, which are sorted. A pod is created without probes where the
// operator does not answer: it must not keep pods from running.
func Webhook(operatorNamespace string, namespaces []string, call admissionv1.WebhookClientConfig) admissionv1.MutatingWebhook {
	in := podentry.NamespaceExclusions(operatorNamespace)
	if len(namespaces) <= maxNamespaces {
		in = append(in, podentry.Requirement{Key: corev1.LabelMetadataName, Op: string(metav1.LabelSelectorOpIn), Values: namespaces})
	}
	entry := podentry.New("probes.operator.kruise.io", admissionv1.Ignore, call)
	entry.NamespaceSelector, entry.ObjectSelector = podentry.Selector(in), podentry.Selector([]podentry.Requirement{podentry.Bypass()})
	entry.TimeoutSeconds = ptr.To[int32](webhookTimeout)
	return entry
}
