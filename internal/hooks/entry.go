// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"cmp"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
)

// defaultSeconds is how long the API server waits for an answer.
const defaultSeconds = 10

// exemptRequests excludes pods beyond selectors: mirror pods, already running, and deletions emptying a namespace.
func (h *Hook) exemptRequests() []admissionv1.MatchCondition {
	if h.Resource.Group != corev1.GroupName || h.Resource.Resource != "pods" || h.Subresource == "eviction" {
		return nil
	}
	conditions := []admissionv1.MatchCondition{{
		Name: "not-a-mirror-pod", Expression: `!('` + podentry.MirrorAnnotation + `' in (object == null ? oldObject : object).metadata.?annotations.orValue({}))`,
	}}
	if slices.Contains(h.Verbs, admissionv1.Delete) {
		conditions = append(conditions, admissionv1.MatchCondition{
			Name: "not-with-its-namespace", Expression: `request.userInfo.username != 'system:serviceaccount:kube-system:namespace-controller'`,
		})
	}
	return conditions
}

// entry registers a hook as a webhook, limited by further conditions.
func (h *Hook) entry(operator string, beyond []admissionv1.MatchCondition, call admissionv1.WebhookClientConfig) admissionv1.MutatingWebhook {
	namespaces, objects, conditions := h.NamespaceSelector, h.ObjectSelector, slices.Clone(h.Conditions)
	if !h.Cluster {
		namespaces = with(namespaces, podentry.NamespaceExclusions(operator)...)
		if h.Subresource != "eviction" {
			objects = with(objects, podentry.Bypass())
		}
		conditions = append(h.exemptRequests(), conditions...)
	}
	resource, scope, again := h.Resource.Resource, admissionv1.NamespacedScope, admissionv1.NeverReinvocationPolicy
	if h.Subresource != "" {
		resource += "/" + h.Subresource
	}
	if h.Cluster {
		scope = admissionv1.ClusterScope
	}
	if h.Again {
		again = admissionv1.IfNeededReinvocationPolicy
	}
	return admissionv1.MutatingWebhook{
		Name:         h.Name,
		ClientConfig: call,
		Rules: append([]admissionv1.RuleWithOperations{{
			Operations: h.Verbs,
			Rule: admissionv1.Rule{
				APIGroups: []string{h.Resource.Group}, APIVersions: []string{h.Resource.Version}, Resources: []string{resource}, Scope: &scope,
			},
		}}, h.Also...),
		FailurePolicy:           ptr.To(cmp.Or(h.OnFailure, admissionv1.Fail)),
		MatchPolicy:             ptr.To(admissionv1.Equivalent),
		NamespaceSelector:       with(namespaces),
		ObjectSelector:          with(objects),
		SideEffects:             ptr.To(cmp.Or(h.SideEffects, admissionv1.SideEffectClassNone)),
		TimeoutSeconds:          ptr.To(cmp.Or(h.Seconds, defaultSeconds)),
		AdmissionReviewVersions: []string{"v1"},
		ReinvocationPolicy:      &again,
		MatchConditions:         append(conditions, beyond...),
	}
}

// with is a selector with further requirements. Nil selects everything.
func with(selector *metav1.LabelSelector, more ...podentry.Requirement) *metav1.LabelSelector {
	all := selector.DeepCopy()
	if all == nil {
		all = &metav1.LabelSelector{}
	}
	all.MatchExpressions = append(all.MatchExpressions, podentry.Selector(more).MatchExpressions...)
	return all
}

// exempting adds the exemptions to a policy.
func exempting(policy *unstructured.Unstructured, operator string) (*unstructured.Unstructured, error) {
	policy = policy.DeepCopy()
	path := []string{"spec", "matchConstraints"}
	content, _, err := unstructured.NestedMap(policy.Object, path...)
	constraints := &admissionv1.MatchResources{}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, constraints)
	}
	constraints.NamespaceSelector = with(constraints.NamespaceSelector, podentry.NamespaceExclusions(operator)...)
	constraints.ObjectSelector = with(constraints.ObjectSelector, podentry.Bypass())
	if err == nil {
		content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(constraints)
	}
	if err == nil {
		err = unstructured.SetNestedMap(policy.Object, content, path...)
	}
	if err != nil {
		return nil, fmt.Errorf("changing the selectors of policy %s: %w", policy.GetName(), err)
	}
	return policy, nil
}

// inOrder sorts hooks as they are called.
func inOrder(hooks []*Hook) {
	slices.SortFunc(hooks, func(a, b *Hook) int { return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Name, b.Name)) })
}
