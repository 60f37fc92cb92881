// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"crypto/sha256"
	_ "embed" // policy.yaml
	"encoding/hex"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
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

//go:embed policy.yaml
var policyText []byte

// PolicyName is the name of the static policy.
const PolicyName = "kruise-operator-sidecars"

// AnchorName names a binding without pods, and its revision. Without any
// binding, an API server forgets how to read revisions and later refuses pods.
const AnchorName = PolicyName + "-anchor"

const (
	nameLabel    = "app.kubernetes.io/name"
	operatorName = "kruise-operator"
)

// Policy is the static policy for an operator in a namespace.
func Policy(operatorNamespace string) (*admissionv1.MutatingAdmissionPolicy, error) {
	policy := &admissionv1.MutatingAdmissionPolicy{}
	if err := yaml.UnmarshalStrict(policyText, policy); err != nil {
		return nil, fmt.Errorf("decoding the policy of SidecarSets: %w", err)
	}
	policy.Spec.MatchConstraints.NamespaceSelector = podentry.Selector(podentry.NamespaceExclusions(operatorNamespace))
	return policy, nil
}

// Binding makes the policy inject a revision of one set.
func Binding(set string, match Match, revision, operatorNamespace string, owner metav1.OwnerReference) *admissionv1.MutatingAdmissionPolicyBinding {
	binding := bindingTo(EntryName(set), revision, operatorNamespace, owner)
	binding.Spec.MatchResources = &admissionv1.MatchResources{
		MatchPolicy: ptr.To(admissionv1.Equivalent), NamespaceSelector: podentry.Selector(match.Namespace), ObjectSelector: podentry.Selector(match.Labels),
	}
	return binding
}

// Anchor is the binding without pods.
func Anchor(operatorNamespace string) *admissionv1.MutatingAdmissionPolicyBinding {
	binding := bindingTo(AnchorName, AnchorName, operatorNamespace)
	binding.Spec.MatchResources = &admissionv1.MatchResources{
		MatchPolicy:       ptr.To(admissionv1.Equivalent),
		NamespaceSelector: &metav1.LabelSelector{},
		ObjectSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{"operator.kruise.io/never": "matches"}},
	}
	return binding
}

func bindingTo(name, revision, namespace string, owners ...metav1.OwnerReference) *admissionv1.MutatingAdmissionPolicyBinding {
	return &admissionv1.MutatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "MutatingAdmissionPolicyBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{nameLabel: operatorName}, OwnerReferences: owners},
		Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{
			PolicyName: PolicyName,
			ParamRef: &admissionv1.ParamRef{
				Name: revision, Namespace: namespace,
				// A missing revision belongs to a deleted set or an uninstalled operator: refuse no pod.
				ParameterNotFoundAction: ptr.To(admissionv1.AllowAction),
			},
		},
	}
}

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
