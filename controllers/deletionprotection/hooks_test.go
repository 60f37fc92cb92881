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
	protected := []kinds.Kind{
		{Group: "apps.kruise.io", Plural: "clonesets", Scope: kinds.Namespaced}, {Group: "apps.kruise.io", Plural: "statefulsets", Scope: kinds.Namespaced},
	}
	for name, some := range map[string][]kinds.Kind{"all kinds": protected, "one is off": protected[1:], "all are off": nil} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, rule := range rules(some) {
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
