// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package deletionprotection

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

func TestNativeKindsAndEnabledOnesAreProtected(t *testing.T) {
	protected := []kinds.Kind{
		{Name: "CloneSet", Group: "apps.kruise.io", Plural: "clonesets", Scope: kinds.Namespaced, Protected: true},
		{Name: "StatefulSet", Group: "apps.kruise.io", Plural: "statefulsets", Scope: kinds.Namespaced, Protected: true},
	}
	for name, some := range map[string][]kinds.Kind{"all kinds": protected, "one is off": protected[1:], "all are off": nil} {
		t.Run(name, func(t *testing.T) {
			var got []string
			all, err := policies(&config.Config{Table: some, Kinds: kinds.Table(some).Names()})
			if err != nil {
				t.Fatal(err)
			}
			rules, _, _ := unstructured.NestedSlice(all[0].Objects[0].Object, "spec", "matchConstraints", "resourceRules")
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
