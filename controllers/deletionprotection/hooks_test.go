// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package deletionprotection

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

func TestNativeKindsAndEnabledOnesAreProtected(t *testing.T) {
	protected := kinds.Where(func(k kinds.Kind) bool { return k.Protected })
	for name, some := range map[string][]kinds.Kind{"all kinds": protected, "one is off": protected[1:], "all are off": nil} {
		t.Run(name, func(t *testing.T) {
			policies, err := Policies(some)
			if err != nil {
				t.Fatal(err)
			}
			rules, _, err := unstructured.NestedSlice(policies[0].Objects[0].Object, "spec", "matchConstraints", "resourceRules")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, rule := range rules {
				groups, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "apiGroups")
				resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
				for _, resource := range resources {
					got = append(got, groups[0]+"/"+resource)
				}
			}
			want := []string{
				"/namespaces", "/services", "apiextensions.k8s.io/customresourcedefinitions", "apps/deployments", "apps/replicasets", "apps/statefulsets",
				"networking.k8s.io/ingresses",
			}
			for _, kind := range some {
				want = append(want, kind.Group+"/"+kind.Plural)
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}
