// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestASetForAnExemptNamespaceIsWarnedOf(t *testing.T) {
	in := func(names ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpIn, Values: names}}}
	}
	cases := map[string]struct {
		selector *metav1.LabelSelector
		want     int
	}{
		"all namespaces":           {},
		"another one":              {selector: in("shop")},
		"kube-system":              {selector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "kube-system"}}, want: 1},
		"that of the operator too": {selector: in("shop", "operator"), want: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Exempt(tc.selector, "operator"); len(got) != tc.want {
				t.Errorf("warnings %q", got)
			}
		})
	}
}
