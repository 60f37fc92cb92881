// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

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
		told     bool
		only     bool
	}{
		"all namespaces":           {},
		"another one":              {selector: in("shop")},
		"kube-system":              {selector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "kube-system"}}, told: true, only: true},
		"that of the operator too": {selector: in("shop", "operator"), told: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pods := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}
			match, err := MatchOf(pods, tc.selector)
			if err != nil {
				t.Fatal(err)
			}
			if message, only := match.Exempt("operator"); (message != "") != tc.told || only != tc.only {
				t.Errorf("got %q, %v", message, only)
			}
		})
	}
}
