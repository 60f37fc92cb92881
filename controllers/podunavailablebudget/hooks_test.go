// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podunavailablebudget

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/disruption"
)

func budgetIn(namespace, name, policy string) *disruption.Budget {
	b := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	if policy != "" {
		b.Annotations = map[string]string{v1beta1.AnnotationBudgetFailurePolicy: policy}
	}
	return disruption.Parse(b)
}

// What is registered: only for namespaces with budgets, only for what the gates allow, and evictions by the stricter budget of a namespace.
func TestHooks(t *testing.T) {
	all := disruption.Gates{Delete: true, Update: true}
	for name, tc := range map[string]struct {
		budgets []*disruption.Budget
		gates   disruption.Gates
		want    string
	}{
		"no budget":    {nil, all, ""},
		"gates off":    {[]*disruption.Budget{budgetIn("a", "x", "")}, disruption.Gates{}, ""},
		"one budget":   {[]*disruption.Budget{budgetIn("a", "x", "")}, all, "pods-fail Fail [DELETE UPDATE] [a], evictions-fail Fail [CREATE] [a]"},
		"only updates": {[]*disruption.Budget{budgetIn("a", "x", "")}, disruption.Gates{Update: true}, "pods-fail Fail [UPDATE] [a]"},
		"both policies in a namespace, one in another": {
			[]*disruption.Budget{budgetIn("a", "x", ""), budgetIn("a", "y", "Ignore"), budgetIn("b", "z", "Ignore")}, disruption.Gates{Delete: true},
			"pods-fail Fail [DELETE] [a], pods-ignore Ignore [DELETE] [a b], evictions-fail Fail [CREATE] [a], evictions-ignore Ignore [CREATE] [b]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, h := range Hooks(tc.budgets, tc.gates, "system:serviceaccount:a:b") {
				failure := "Fail"
				if h.OnFailure != "" {
					failure = string(h.OnFailure)
				}
				got = append(got, fmt.Sprint(strings.TrimSuffix(h.Name, ".disruption.operator.kruise.io"), " ", failure, " ", h.Verbs, " ", h.NamespaceSelector.MatchExpressions[0].Values))
			}
			if text := strings.Join(got, ", "); text != tc.want {
				t.Errorf("got %s, want %s", text, tc.want)
			}
		})
	}
}
