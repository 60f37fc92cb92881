// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is admission for PodUnavailableBudgets: it refuses impossible ones, and two for the same pods.
package admission

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/budget"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// +kubebuilder:webhook:path=/mutate-policy-kruise-io-v1beta1-podunavailablebudget,mutating=true,groups=policy.kruise.io,resources=podunavailablebudgets,verbs=create;update,versions=v1beta1,name=default.podunavailablebudgets.policy.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-policy-kruise-io-v1beta1-podunavailablebudget,mutating=false,groups=policy.kruise.io,resources=podunavailablebudgets,verbs=create;update,versions=v1beta1,name=validate.podunavailablebudgets.policy.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

const (
	// maxOthers is how many budgets of a namespace are compared.
	maxOthers = 2000
	// maxRequirements limits the requirements of a selector.
	maxRequirements = 100
)

type budgetOf = v1beta1.PodUnavailableBudget

// Kind are the rules for budgets.
func Kind(gates features.Set, reader client.Reader) admit.Kind[budgetOf, *budgetOf] {
	kind := admit.Kind[budgetOf, *budgetOf]{
		GroupVersionKind: v1beta1.GroupVersion().WithKind("PodUnavailableBudget"), Older: "v1alpha1",
		Default: func(*budgetOf) {}, Validate: Validate, ValidateUpdate: ValidateUpdate, ChecksMetadata: true,
		Warnings: func(b, _ *budgetOf) []string { return Warnings(b, gates) },
		LookUp: func(ctx context.Context, b, old *budgetOf) (field.ErrorList, []string) {
			return others(ctx, reader, b, old), nil
		},
		OlderField: func(path string) string {
			switch {
			case strings.HasPrefix(path, "spec.protectOperations"):
				return "metadata.annotations[" + v1beta1.AnnotationProtectOperations + "]"
			case path == "spec.protectTotalReplicas":
				return "metadata.annotations[" + v1beta1.AnnotationProtectTotalReplicas + "]"
			}
			return path
		},
	}
	if !gates.Enabled(features.PodUnavailableBudgetDelete) && !gates.Enabled(features.PodUnavailableBudgetUpdate) {
		kind.Off = field.ErrorList{field.Forbidden(field.NewPath("spec"), fmt.Sprintf("nothing is protected while the feature gates %s and %s are off",
			features.PodUnavailableBudgetDelete, features.PodUnavailableBudgetUpdate))}
	}
	return kind
}

// Validate returns the faults that the schema does not see.
func Validate(b *budgetOf) field.ErrorList {
	spec, path := &b.Spec, field.NewPath("spec")
	errs := rules.Metadata(&b.ObjectMeta, field.NewPath("metadata"))
	switch {
	case (spec.Selector == nil) == (spec.TargetReference == nil):
		errs = append(errs, field.Required(field.NewPath("spec.selector, targetRef"), "exactly one of them must be given"))
	case spec.TargetReference != nil:
		errs = append(errs, target(spec.TargetReference, path.Child("targetRef"))...)
	default:
		errs = append(errs, selector(spec.Selector, path.Child("selector"))...)
	}
	if (spec.MaxUnavailable == nil) == (spec.MinAvailable == nil) {
		errs = append(errs, field.Required(field.NewPath("spec.maxUnavailable, minAvailable"), "exactly one of them must be given"))
	}
	errs = append(errs, limit(spec.MaxUnavailable, path.Child("maxUnavailable"))...)
	errs = append(errs, limit(spec.MinAvailable, path.Child("minAvailable"))...)
	if spec.IgnoredPodSelector != nil {
		errs = append(errs, selector(spec.IgnoredPodSelector, path.Child("ignoredPodSelector"))...)
	}
	return append(errs, annotations(b)...)
}

func target(t *v1beta1.TargetReference, path *field.Path) field.ErrorList {
	_, err := schema.ParseGroupVersion(t.APIVersion)
	if t.APIVersion == "" || t.Kind == "" || t.Name == "" || err != nil {
		return field.ErrorList{field.Invalid(path, *t, "must name apiVersion, kind and name of a workload")}
	}
	return nil
}

func selector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	switch n := len(s.MatchLabels) + len(s.MatchExpressions); {
	case n == 0:
		return field.ErrorList{field.Invalid(path, "{}", "must name labels: an empty selector would mean every pod of the namespace")}
	case n > maxRequirements:
		return field.ErrorList{field.TooMany(path, n, maxRequirements)}
	}
	return rules.LabelSelector(s, path)
}

// limit checks a number or percentage.
func limit(v *intstr.IntOrString, path *field.Path) field.ErrorList {
	if v == nil {
		return nil
	}
	n, err := budget.Count(*v, 100, budget.Up)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path, rules.Plain(*v), "must be a number of 0 or more, or a percentage such as 30%")}
	case v.Type == intstr.String && n > 100:
		return field.ErrorList{field.Invalid(path, v.StrVal, "must not be more than 100%")}
	}
	return nil
}

// annotations checks the forms of v1alpha1, which are honored in both versions.
func annotations(b *budgetOf) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("metadata", "annotations")
	key := v1beta1.AnnotationProtectOperations
	if _, unknown := v1beta1.ParseOperations(b.Annotations[key]); len(unknown) > 0 {
		errs = append(errs, field.NotSupported(path.Key(key), unknown[0], v1beta1.Operations()))
	}
	key = v1beta1.AnnotationProtectTotalReplicas
	if text, found := b.Annotations[key]; found {
		n, err := strconv.ParseInt(text, 10, 32)
		switch of := b.Spec.ProtectTotalReplicas; {
		case err != nil || n < 1:
			errs = append(errs, field.Invalid(path.Key(key), text, "must be a number from 1 to 2147483647"))
		case of != nil && int64(*of) != n:
			errs = append(errs, field.Invalid(path.Key(key), text, fmt.Sprintf("differs from spec.protectTotalReplicas, which is %d", *of)))
		}
	}
	key = v1beta1.AnnotationBudgetFailurePolicy
	if text, found := b.Annotations[key]; found {
		errs = append(errs, rules.OneOf(path.Key(key), text, "Fail", "Ignore")...)
	}
	return errs
}

// ValidateUpdate returns forbidden changes.
func ValidateUpdate(b, old *budgetOf) field.ErrorList {
	if equality.Semantic.DeepEqual(b.Spec.Selector, old.Spec.Selector) && equality.Semantic.DeepEqual(b.Spec.TargetReference, old.Spec.TargetReference) {
		return nil
	}
	return field.ErrorList{field.Required(field.NewPath("spec.selector, targetRef"), "cannot be changed once the budget exists: create another one")}
}

// Warnings are about what has no effect.
func Warnings(b *budgetOf, gates features.Set) []string {
	var warnings []string
	if !gates.Enabled(features.PodUnavailableBudgetUpdate) {
		for i, op := range b.Spec.ProtectOperations {
			if op == v1beta1.PubUpdateOperation || op == v1beta1.PubResizeOperation {
				warnings = append(warnings, fmt.Sprintf("spec.protectOperations[%d]: updates are not checked while the feature gate %s is off", i, features.PodUnavailableBudgetUpdate))
			}
		}
	}
	if blocksAll(b) {
		warnings = append(warnings, "spec: no pod may become unavailable, so drains and updates wait until this changes")
	}
	return warnings
}

// blocksAll is true for a budget without room for any pod.
func blocksAll(b *budgetOf) bool {
	all := func(v *intstr.IntOrString, n int32) bool {
		if v == nil {
			return false
		}
		count, err := budget.Count(*v, 100, budget.Up)
		return err == nil && count == n && (n == 0 || v.Type == intstr.String)
	}
	return all(b.Spec.MaxUnavailable, 0) || all(b.Spec.MinAvailable, 100)
}

// others refuses a second budget for the same target, or for a selector that overlaps.
func others(ctx context.Context, reader client.Reader, b, old *budgetOf) field.ErrorList {
	if old != nil {
		return nil
	}
	list := &v1beta1.PodUnavailableBudgetList{}
	if err := reader.List(ctx, list, client.InNamespace(b.Namespace), client.Limit(maxOthers)); err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec"), fmt.Errorf("reading the other budgets of the namespace: %w", err))}
	}
	for i := range list.Items {
		other := &list.Items[i]
		switch {
		case other.Name == b.Name || other.DeletionTimestamp != nil:
		case b.Spec.TargetReference != nil && sameTarget(b.Spec.TargetReference, other.Spec.TargetReference):
			return field.ErrorList{field.Invalid(field.NewPath("spec", "targetRef"), *b.Spec.TargetReference, "PodUnavailableBudget "+other.Name+" has the same target")}
		case b.Spec.Selector != nil && other.Spec.Selector != nil && overlap(b.Spec.Selector, other.Spec.Selector):
			return field.ErrorList{field.Invalid(field.NewPath("spec", "selector"), metav1.FormatLabelSelector(b.Spec.Selector),
				"the selector of PodUnavailableBudget "+other.Name+" can match the same pods")}
		}
	}
	return nil
}

func sameTarget(a, b *v1beta1.TargetReference) bool {
	return b != nil && a.Name == b.Name && schema.FromAPIVersionAndKind(a.APIVersion, a.Kind).GroupKind() == schema.FromAPIVersionAndKind(b.APIVersion, b.Kind).GroupKind()
}
