// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Exempt warns of namespaces that are named and in which nothing is injected, so that nothing there depends on the operator.
func Exempt(selector *metav1.LabelSelector, operator string) []string {
	if selector == nil {
		return nil
	}
	named := []string{selector.MatchLabels[corev1.LabelMetadataName]}
	for _, expression := range selector.MatchExpressions {
		if expression.Key == corev1.LabelMetadataName && expression.Operator == metav1.LabelSelectorOpIn {
			named = append(named, expression.Values...)
		}
	}
	var exempt []string
	for _, name := range named {
		if name != "" && (name == metav1.NamespaceSystem || name == operator) {
			exempt = append(exempt, name)
		}
	}
	if len(exempt) == 0 {
		return nil
	}
	return []string{"spec.namespaceSelector: nothing is injected in namespace " + strings.Join(exempt, ", ") + ", which is exempt"}
}
