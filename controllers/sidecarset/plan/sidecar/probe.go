// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
)

// A probe is a cluster-scoped object, created only in dry runs. Policy and webhook mark
// it like a pod of its labels. Namespaces, quotas and rules for pods do not interfere.
const (
	// ProbeLabel is on every probe.
	ProbeLabel = "operator.kruise.io/injection-probe"
	// policyPrefix and webhookPrefix, with a set's name, are annotations with the revisions in force.
	policyPrefix, webhookPrefix = "probe.operator.kruise.io/", "webhook-probe.operator.kruise.io/"
	// Probes is the resource of probes.
	Probes = "nodepodprobes"
)

// Probe is an object for the set to mark; false: no labels match its selector.
func (m Match) Probe() (*appsv1alpha1.NodePodProbe, bool) {
	labels, possible := podentry.Example(m.Labels)
	labels[ProbeLabel] = "true"
	return &appsv1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{
		Name: "kruise-operator-injection-probe", Labels: labels, Annotations: map[string]string{ProbeLabel: "true"},
	}}, possible
}

// PolicyMark is the policy's annotation on a probe.
func PolicyMark(set string) string { return policyPrefix + set }

// WebhookMark is the webhook's annotation on a probe.
func WebhookMark(set string) string { return webhookPrefix + set }

// Marks returns a probe's revisions from policy and webhook; empty: not in force.
func Marks(probe *appsv1alpha1.NodePodProbe, set string) (policy, webhook string) {
	return probe.Annotations[PolicyMark(set)], probe.Annotations[WebhookMark(set)]
}

// ProbeRule has a webhook called for probes, too.
func ProbeRule() admissionv1.RuleWithOperations {
	group := appsv1alpha1.GroupVersion()
	return admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule: admissionv1.Rule{
			APIGroups: []string{group.Group}, APIVersions: []string{"*"}, Resources: []string{Probes}, Scope: ptr.To(admissionv1.ClusterScope),
		},
	}
}

// PodsAndProbes keeps real objects of the probes' kind away.
func PodsAndProbes() admissionv1.MatchCondition {
	return admissionv1.MatchCondition{
		Name: "pods-and-probes", Expression: "request.resource.resource == 'pods' || '" + ProbeLabel + "' in object.metadata.?labels.orValue({})",
	}
}
