// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podentry has what the entries of all webhooks for new pods have in common.
package podentry

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

const (
	// BypassLabel with the value BypassValue, on a pod or on its namespace, keeps every pod webhook and policy of ours away.
	BypassLabel = shared.LabelAdmission
	// BypassValue is the value of BypassLabel.
	BypassValue = "bypass"
	// MirrorAnnotation is on the pods by which kubelets show what they run on their own.
	MirrorAnnotation = "kubernetes.io/config.mirror"

	// callTimeout is how long the API server waits for an answer, in seconds.
	callTimeout = 10
)

// Requirement is one of a label selector.
type Requirement struct {
	Key string `json:"key"`
	// Op is In, NotIn, Exists or DoesNotExist.
	Op     string   `json:"op"`
	Values []string `json:"values"`
}

// String is for messages.
func (r Requirement) String() string { return fmt.Sprintf("%s %s %v", r.Key, r.Op, r.Values) }

// Holds says whether labels fulfill the requirement.
func (r Requirement) Holds(labels map[string]string) bool {
	value, has := labels[r.Key]
	switch metav1.LabelSelectorOperator(r.Op) {
	case metav1.LabelSelectorOpIn:
		return has && slices.Contains(r.Values, value)
	case metav1.LabelSelectorOpNotIn:
		return !has || !slices.Contains(r.Values, value)
	case metav1.LabelSelectorOpExists:
		return has
	case metav1.LabelSelectorOpDoesNotExist:
		return !has
	}
	return false
}

// Excludes says whether no value, present or absent, fulfills both.
func (r Requirement) Excludes(other Requirement) bool {
	switch metav1.LabelSelectorOperator(r.Op) {
	case metav1.LabelSelectorOpIn:
		return !slices.ContainsFunc(r.Values, func(v string) bool { return other.Holds(map[string]string{r.Key: v}) })
	case metav1.LabelSelectorOpExists:
		return metav1.LabelSelectorOperator(other.Op) == metav1.LabelSelectorOpDoesNotExist
	}
	return false
}

// Selector is the label selector with these requirements. Without any it is empty, and selects everything.
func Selector(requirements []Requirement) *metav1.LabelSelector {
	selector := &metav1.LabelSelector{}
	for _, r := range requirements {
		e := metav1.LabelSelectorRequirement{Key: r.Key, Operator: metav1.LabelSelectorOperator(r.Op)}
		if len(r.Values) > 0 {
			e.Values = slices.Clone(r.Values)
		}
		selector.MatchExpressions = append(selector.MatchExpressions, e)
	}
	return selector
}

// NamespaceExclusions are the requirements that keep every set away from namespaces in which nothing may depend on the operator.
func NamespaceExclusions(operator string) []Requirement {
	exempt := []string{metav1.NamespaceSystem}
	if operator != "" && operator != metav1.NamespaceSystem {
		exempt = append(exempt, operator)
	}
	slices.Sort(exempt)
	return []Requirement{{Key: corev1.LabelMetadataName, Op: string(metav1.LabelSelectorOpNotIn), Values: exempt}, Bypass()}
}

// Bypass is the requirement that the break-glass label is not set.
func Bypass() Requirement {
	return Requirement{Key: BypassLabel, Op: string(metav1.LabelSelectorOpNotIn), Values: []string{BypassValue}}
}

// New is an entry of a webhook configuration for the pods that are created, but not for mirrors of pods that run already. The API server waits ten
// seconds for an answer, and then does what the failure policy says. Which pods the entry is for is left to the caller.
func New(name string, onFailure admissionv1.FailurePolicyType, call admissionv1.WebhookClientConfig) admissionv1.MutatingWebhook {
	return admissionv1.MutatingWebhook{
		Name:         name,
		ClientConfig: call,
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule: admissionv1.Rule{
				APIGroups: []string{corev1.GroupName}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: ptr.To(admissionv1.NamespacedScope),
			},
		}},
		FailurePolicy:  &onFailure,
		MatchPolicy:    ptr.To(admissionv1.Equivalent),
		SideEffects:    ptr.To(admissionv1.SideEffectClassNone),
		TimeoutSeconds: ptr.To[int32](callTimeout),
		// Containers that webhooks add after this one are seen. Labels are not: one that the pod did not match is never called again.
		ReinvocationPolicy:      ptr.To(admissionv1.IfNeededReinvocationPolicy),
		AdmissionReviewVersions: []string{"v1"},
		MatchConditions: []admissionv1.MatchCondition{{
			Name: "not-a-mirror-pod", Expression: `!('` + MirrorAnnotation + `' in object.metadata.?annotations.orValue({}))`,
		}},
	}
}
