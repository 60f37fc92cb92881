// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	_ "embed" // policy.yaml
	"errors"
	"fmt"
	"io"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
)

//go:embed policy.yaml
var policyText string

const (
	// PolicyName is the name of the policies, and of their bindings.
	PolicyName = "kruise-operator-launch-priority"
	// WebhookConfiguration is the object that registers the webhook. By its name it comes after that of sidecars, which may have priorities.
	WebhookConfiguration = "kruise-operator-pods-launch-priority"
	// Path is where the API server calls the operator.
	Path = "/order-containers"
	// ProofLabel is on pods of dry runs, with the value ProofPolicy or ProofWebhook: the other way leaves them alone.
	ProofLabel = "operator.kruise.io/launch-priority-proof"
	// ProofPolicy has the policy alone look at the pod.
	ProofPolicy = "policy"
	// ProofWebhook has the webhook alone look at it.
	ProofWebhook = "webhook"
	// LengthOfSuffix is how many random characters end a name that the API server would generate.
	LengthOfSuffix = 5

	// longestPrefix is how much of generateName is kept, as the API server does.
	longestPrefix = 63 - LengthOfSuffix
	asks          = `object.metadata.?annotations[?'apps.kruise.io/container-launch-priority'].orValue('') == 'Ordered' ` +
		`|| object.spec.containers.exists(c, c.?env.orValue([]).exists(e, e.name == 'KRUISE_CONTAINER_PRIORITY'))`
	// beyond holds for the pods that the policy leaves: pods whose names have to be generated and that have no token whose name has random
	// characters. Those that prove the webhook are among them.
	beyond = `object.metadata.?labels[?'` + ProofLabel + `'].orValue('') == '` + ProofWebhook + `' || object.metadata.?name.orValue('') == '' ` +
		`&& !object.spec.?volumes.orValue([]).exists(v, v.name.matches('^kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}$'))`
)

// GeneratedName is the name of a pod that says only how its name begins.
func GeneratedName(prefix, suffix string) string {
	return prefix[:min(len(prefix), longestPrefix)] + suffix
}

// Policies are the objects with which the API server itself orders containers: the policy that changes pods and its binding, then the policy
// that refuses invalid priorities and its binding.
func Policies(operatorNamespace string) (changes, refuses []*unstructured.Unstructured, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(policyText), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return changes, refuses, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("decoding the policies of launch priorities: %w", err)
		}
		if _, found, _ := unstructured.NestedMap(object.Object, "spec", "matchConstraints"); found {
			if err := exempt(object, operatorNamespace); err != nil {
				return nil, nil, err
			}
		}
		if strings.HasPrefix(object.GetKind(), "Mutating") {
			changes = append(changes, object)
		} else {
			refuses = append(refuses, object)
		}
	}
}

// exempt keeps a policy away from namespaces in which nothing may depend on the operator.
func exempt(policy *unstructured.Unstructured, operatorNamespace string) error {
	var requirements []any
	for _, r := range podentry.NamespaceExclusions(operatorNamespace) {
		values := make([]any, len(r.Values))
		for i := range r.Values {
			values[i] = r.Values[i]
		}
		requirements = append(requirements, map[string]any{"key": r.Key, "operator": r.Op, "values": values})
	}
	return unstructured.SetNestedSlice(policy.Object, requirements, "spec", "matchConstraints", "namespaceSelector", "matchExpressions")
}

// Webhook is the entry of the webhook configuration: for all pods that ask for an order, or for those alone that the policy leaves.
func Webhook(operatorNamespace string, narrow bool, call admissionv1.WebhookClientConfig) admissionv1.MutatingWebhook {
	entry := podentry.New("launch-priority.operator.kruise.io", admissionv1.Fail, call)
	entry.NamespaceSelector = podentry.Selector(podentry.NamespaceExclusions(operatorNamespace))
	entry.ObjectSelector = podentry.Selector([]podentry.Requirement{
		podentry.Bypass(), {Key: ProofLabel, Op: string(metav1.LabelSelectorOpNotIn), Values: []string{ProofPolicy}},
	})
	entry.MatchConditions = append(entry.MatchConditions, admissionv1.MatchCondition{Name: "asks-for-an-order", Expression: asks})
	if narrow {
		entry.MatchConditions = append(entry.MatchConditions, admissionv1.MatchCondition{Name: "beyond-the-policy", Expression: beyond})
	}
	return entry
}
