// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

func TestOnlyWhatDiffersIsWritten(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*admissionv1.MutatingAdmissionPolicyBinding)
		holds  bool
	}{
		"it is as it should be": {func(*admissionv1.MutatingAdmissionPolicyBinding) {}, true},
		"the server has filled in defaults": {func(b *admissionv1.MutatingAdmissionPolicyBinding) {
			b.Spec.MatchResources.MatchPolicy, b.Spec.MatchResources.NamespaceSelector = ptr.To(admissionv1.Equivalent), &metav1.LabelSelector{}
		}, true},
		"somebody has added a label": {func(b *admissionv1.MutatingAdmissionPolicyBinding) { b.Labels["mine"] = "yes" }, true},
		"another value":              {func(b *admissionv1.MutatingAdmissionPolicyBinding) { b.Spec.PolicyName = "other" }, false},
		"a label is gone":            {func(b *admissionv1.MutatingAdmissionPolicyBinding) { b.Labels = nil }, false},
		"another owner":              {func(b *admissionv1.MutatingAdmissionPolicyBinding) { b.OwnerReferences[0].UID = "other" }, false},
		"a field is gone":            {func(b *admissionv1.MutatingAdmissionPolicyBinding) { b.Spec.MatchResources = nil }, false},
		"a list more than wanted": {func(b *admissionv1.MutatingAdmissionPolicyBinding) {
			b.Spec.MatchResources.ObjectSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}
		}, false},
		"a selector more than wanted": {func(b *admissionv1.MutatingAdmissionPolicyBinding) {
			b.Spec.MatchResources.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			binding := func(change func(*admissionv1.MutatingAdmissionPolicyBinding)) *unstructured.Unstructured {
				b := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{
					Name: "logs", Labels: map[string]string{"app": "operator"}, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Set", Name: "logs", UID: "uid"}},
				}}
				b.Spec.PolicyName = "inject"
				b.Spec.MatchResources = &admissionv1.MatchResources{ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}}
				change(b)
				content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(b)
				if err != nil {
					t.Fatal(err)
				}
				return &unstructured.Unstructured{Object: content}
			}
			if got := holds(binding(func(*admissionv1.MutatingAdmissionPolicyBinding) {}), binding(tc.change)); got != tc.holds {
				t.Errorf("got %t", got)
			}
		})
	}
}
