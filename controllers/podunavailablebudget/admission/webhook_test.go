// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

func good(name string, labels map[string]string) *budgetOf {
	b := &budgetOf{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	b.Spec.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	return b
}

func aimed(apiVersion, kind, name string) func(*budgetOf) {
	return func(b *budgetOf) {
		b.Spec.Selector, b.Spec.TargetReference = nil, &v1beta1.TargetReference{APIVersion: apiVersion, Kind: kind, Name: name}
	}
}

func annotated(key, value string) func(*budgetOf) {
	return func(b *budgetOf) { b.Annotations = map[string]string{key: value} }
}

func TestRejections(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*budgetOf)
		want string
	}{
		"nothing":                      {func(*budgetOf) {}, ""},
		"a target":                     {aimed("apps/v1", "Deployment", "x"), ""},
		"neither selector nor target":  {func(b *budgetOf) { b.Spec.Selector = nil }, "spec.selector, targetRef: Required"},
		"selector and target":          {func(b *budgetOf) { b.Spec.TargetReference = &v1beta1.TargetReference{} }, "spec.selector, targetRef: Required"},
		"a target without a name":      {aimed("apps/v1", "Deployment", ""), "spec.targetRef: Invalid"},
		"a target of no API":           {aimed("a/b/c", "Deployment", "x"), "spec.targetRef: Invalid"},
		"an empty selector":            {func(b *budgetOf) { b.Spec.Selector = &metav1.LabelSelector{} }, "spec.selector: Invalid"},
		"a selector that is none":      {func(b *budgetOf) { b.Spec.Selector.MatchLabels["a"] = "b c" }, "spec.selector"},
		"no limit":                     {func(b *budgetOf) { b.Spec.MaxUnavailable = nil }, "spec.maxUnavailable, minAvailable: Required"},
		"two limits":                   {func(b *budgetOf) { b.Spec.MinAvailable = ptr.To(intstr.FromInt32(1)) }, "spec.maxUnavailable, minAvailable: Required"},
		"a negative limit":             {func(b *budgetOf) { b.Spec.MaxUnavailable = ptr.To(intstr.FromInt32(-1)) }, "spec.maxUnavailable: Invalid value: -1"},
		"a word for a limit":           {func(b *budgetOf) { b.Spec.MaxUnavailable = ptr.To(intstr.FromString("few")) }, `spec.maxUnavailable: Invalid value: "few"`},
		"more than all":                {func(b *budgetOf) { b.Spec.MaxUnavailable = ptr.To(intstr.FromString("101%")) }, `spec.maxUnavailable: Invalid value: "101%"`},
		"an empty ignored selector":    {func(b *budgetOf) { b.Spec.IgnoredPodSelector = &metav1.LabelSelector{} }, "spec.ignoredPodSelector: Invalid"},
		"an annotated operation":       {annotated(v1beta1.AnnotationProtectOperations, "READ"), "metadata.annotations[kruise.io/pub-protect-operations]: Unsupported"},
		"an annotated total":           {annotated(v1beta1.AnnotationProtectTotalReplicas, "5000000000"), "metadata.annotations[pub.kruise.io/protect-total-replicas]: Invalid"},
		"a failure policy of no sense": {annotated(v1beta1.AnnotationBudgetFailurePolicy, "ignore"), "operator.kruise.io/disruption-failure-policy"},
		"a total that differs": {func(b *budgetOf) {
			annotated(v1beta1.AnnotationProtectTotalReplicas, "5")(b)
			b.Spec.ProtectTotalReplicas = ptr.To(int32(6))
		}, "differs from spec.protectTotalReplicas, which is 6"},
	} {
		t.Run(name, func(t *testing.T) {
			b := good("web", map[string]string{"app": "web"})
			tc.edit(b)
			got := fmt.Sprint(Validate(b).ToAggregate())
			if tc.want == "" && got != "<nil>" || !strings.Contains(got, tc.want) {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestWithoutAGateNothingIsProtected(t *testing.T) {
	gates := features.Set{}
	if off := Kind(gates, nil).Off; len(off) != 1 || !strings.Contains(off[0].Error(), "spec: Forbidden: nothing is protected while the feature gates") {
		t.Errorf("off: %v", off)
	}
	if on := Kind(features.Set{features.PodUnavailableBudgetUpdate: true}, nil).Off; len(on) > 0 {
		t.Errorf("on: %v", on)
	}
}

func TestWhatIsProtectedIsFixed(t *testing.T) {
	b := good("web", map[string]string{"app": "web"})
	if errs := ValidateUpdate(b, good("web", map[string]string{"app": "shop"})); len(errs) != 1 || errs[0].Field != "spec.selector, targetRef" {
		t.Errorf("got %v", errs)
	}
}

func TestTwoBudgetsForTheSamePods(t *testing.T) {
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	of := func(name, version string) *budgetOf {
		b := good(name, nil)
		aimed("apps.kruise.io/"+version, "CloneSet", "x")(b)
		return b
	}
	reader := fake.NewClientBuilder().WithScheme(known).WithObjects(good("old", map[string]string{"app": "web"}), of("of-x", "v1alpha1")).Build()
	opposite := good("new", nil)
	opposite.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"web"}}}}
	for name, tc := range map[string]struct {
		budget *budgetOf
		want   string
	}{
		"the same labels":                  {good("new", map[string]string{"app": "web"}), "spec.selector"},
		"other values":                     {good("new", map[string]string{"app": "shop"}), ""},
		"more keys":                        {good("new", map[string]string{"app": "web", "tier": "a"}), ""},
		"the opposite":                     {opposite, ""},
		"the same target, another version": {of("new", "v1beta1"), "spec.targetRef"},
		"itself":                           {good("old", map[string]string{"app": "web"}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			errs, _ := Kind(features.Set{}, reader).LookUp(t.Context(), tc.budget, nil)
			if tc.want == "" && len(errs) > 0 || tc.want != "" && (len(errs) != 1 || errs[0].Field != tc.want) {
				t.Errorf("got %v", errs)
			}
		})
	}
}
