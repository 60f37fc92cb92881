// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	_ "embed" // policy.yaml
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
)

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
