// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
)

// Each selector operator matches as elsewhere in Kubernetes, here and at the API server.
func TestWhichPodsASetSelects(t *testing.T) {
	pods := map[string]map[string]string{
		"none": nil, "shop": {"app": "shop"}, "web": {"app": "web"}, "web of a tier": {"app": "web", "tier": "front"}, "empty": {"app": ""},
	}
	for name, tc := range map[string]struct {
		selector string
		selects  []string
	}{
		"a label":                 {`{matchLabels: {app: shop}}`, []string{"shop"}},
		"In":                      {`{matchExpressions: [{key: app, operator: In, values: [shop, web]}]}`, []string{"shop", "web", "web of a tier"}},
		"NotIn, also without it":  {`{matchExpressions: [{key: app, operator: NotIn, values: [web]}]}`, []string{"none", "shop", "empty"}},
		"Exists, also when empty": {`{matchExpressions: [{key: app, operator: Exists}]}`, []string{"shop", "web", "web of a tier", "empty"}},
		"DoesNotExist":            {`{matchExpressions: [{key: app, operator: DoesNotExist}]}`, []string{"none"}},
		"all of several":          {`{matchLabels: {app: web}, matchExpressions: [{key: tier, operator: DoesNotExist}]}`, []string{"web"}},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := map[string]bool{}
			for _, pod := range tc.selects {
				wanted[pod] = true
			}
			ofPods := set(t, "log", "selector: "+tc.selector+"\ncontainers: [{name: a, image: a}]")
			ofNamespaces := set(t, "log", "selector: {matchExpressions: [{key: any, operator: DoesNotExist}]}\nnamespaceSelector: "+tc.selector+"\ncontainers: [{name: a, image: a}]")
			for pod, have := range pods {
				if got := ofPods.Match.Selects(have, nil); got != wanted[pod] {
					t.Errorf("a pod with the labels %v: %v", have, got)
				}
				if got := ofNamespaces.Match.Selects(nil, have); got != wanted[pod] {
					t.Errorf("a pod of a namespace with the labels %v: %v", have, got)
				}
				for set, of := range map[*sidecar.Set]func(*metav1.LabelSelector, *metav1.LabelSelector) *metav1.LabelSelector{
					ofPods:       func(pod, _ *metav1.LabelSelector) *metav1.LabelSelector { return pod },
					ofNamespaces: func(_, namespace *metav1.LabelSelector) *metav1.LabelSelector { return namespace },
				} {
					bound := sidecar.Binding("log", set.Match, "revision", "kruise-system", metav1.OwnerReference{}).Spec.MatchResources
					for way, selector := range map[string]*metav1.LabelSelector{"the policy": of(bound.ObjectSelector, bound.NamespaceSelector)} {
						parsed, err := metav1.LabelSelectorAsSelector(selector)
						if err != nil {
							t.Fatal(err)
						}
						if got := parsed.Matches(labels.Set(have)); got != wanted[pod] {
							t.Errorf("%s, with the labels %v: %v", way, have, got)
						}
					}
				}
			}
		})
	}
}

// Without a namespace selector, a set selects every namespace; by name, only one.
func TestWhichNamespacesASetSelects(t *testing.T) {
	const head = "selector: {matchLabels: {app: shop}}\ncontainers: [{name: a, image: a}]\n"
	shop, store := map[string]string{"kubernetes.io/metadata.name": "shop"}, map[string]string{"kubernetes.io/metadata.name": "store"}
	for selector, both := range map[string]bool{"": true, "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}": false} {
		s := set(t, "log", head+selector)
		pod := map[string]string{"app": "shop"}
		if !s.Match.Selects(pod, shop) || s.Match.Selects(pod, store) != both {
			t.Errorf("%q selects pods of shop %v, of store %v", selector, s.Match.Selects(pod, shop), s.Match.Selects(pod, store))
		}
	}
}
