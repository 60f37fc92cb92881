// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func binding() *admissionv1.MutatingAdmissionPolicyBinding {
	b := &admissionv1.MutatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingAdmissionPolicyBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: "logs", Labels: map[string]string{"app": "operator"}},
	}
	b.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Set", Name: "logs", UID: "uid"}}
	b.Spec.PolicyName = "inject"
	b.Spec.MatchResources = &admissionv1.MatchResources{ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}}
	return b
}

func TestOnlyWhatDiffersIsWritten(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*admissionv1.MutatingAdmissionPolicyBinding)
		writes int
	}{
		"it is not there": {nil, 1},
		"it is as it should be": {func(*admissionv1.MutatingAdmissionPolicyBinding) {
		}, 0},
		"the server has filled in defaults": {func(b *admissionv1.MutatingAdmissionPolicyBinding) {
			b.Spec.MatchResources.MatchPolicy, b.Spec.MatchResources.NamespaceSelector = ptr.To(admissionv1.Equivalent), &metav1.LabelSelector{}
		}, 0},
		"somebody has added a label": {func(b *admissionv1.MutatingAdmissionPolicyBinding) { b.Labels["mine"] = "yes" }, 0},
		"another value":              {func(b *admissionv1.MutatingAdmissionPolicyBinding) { b.Spec.PolicyName = "other" }, 1},
		"a label is gone":            {func(b *admissionv1.MutatingAdmissionPolicyBinding) { b.Labels = nil }, 1},
		"another owner":              {func(b *admissionv1.MutatingAdmissionPolicyBinding) { b.OwnerReferences[0].UID = "other" }, 1},
		"a field is gone":            {func(b *admissionv1.MutatingAdmissionPolicyBinding) { b.Spec.MatchResources = nil }, 1},
		"a list more than wanted": {func(b *admissionv1.MutatingAdmissionPolicyBinding) {
			b.Spec.MatchResources.ObjectSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}
		}, 1},
		"a selector more than wanted": {func(b *admissionv1.MutatingAdmissionPolicyBinding) {
			b.Spec.MatchResources.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(scheme.Scheme)
			there := runtime.Object(nil)
			if tc.change != nil {
				b := binding()
				tc.change(b)
				builder, there = builder.WithObjects(b), b
			}
			writes := 0
			c := builder.WithInterceptorFuncs(interceptor.Funcs{
				Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
					writes++
					return nil
				},
			}).Build()
			is := func(kept Kept) bool {
				return kept.Created == (tc.writes > 0 && tc.change == nil) && kept.Changed == (tc.writes > 0 && tc.change != nil)
			}
			if kept, err := Keep(t.Context(), c, c, binding()); err != nil || writes != tc.writes || !is(kept) {
				t.Errorf("%d writes, want %d: %+v, %v", writes, tc.writes, kept, err)
			}
			if kept, err := KeepListed(t.Context(), c, binding(), there); err != nil || writes != 2*tc.writes || !is(kept) {
				t.Errorf("beside a list: %d writes, want %d: %+v, %v", writes-tc.writes, tc.writes, kept, err)
			}
		})
	}
}
