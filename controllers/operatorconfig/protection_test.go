// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"errors"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kruise-operator/kruise-operator/config"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/installowner"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

// known are some kinds.
func known() kinds.Table { return testutil.Kinds("CloneSet", "StatefulSet") }

// protectedPlurals are the kinds of the table that are protected, but for one.
func protectedPlurals(but string) []string {
	var plurals []string
	for _, kind := range known().Where(func(k kinds.Kind) bool { return k.Name != but }) {
		plurals = append(plurals, kind.Plural)
	}
	return plurals
}

func TestProtectionIsThereWhileItIsAskedFor(t *testing.T) {
	policy, err := config.Files.ReadFile("protection/manifests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	installed := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "kruise-operator-manager", UID: "installed"}}
	for name, tc := range map[string]struct {
		on        bool
		before    bool
		disabled  []string
		installed bool
		// uncalled says that the API server does not call the operator.
		uncalled bool
		// want are the resources that are protected; nil: there is no policy.
		want    []string
		wantErr error
	}{
		"off":                         {installed: true},
		"it was on":                   {before: true, installed: true},
		"on":                          {on: true, installed: true, want: protectedPlurals("")},
		"one kind is disabled":        {on: true, installed: true, disabled: []string{"CloneSet"}, want: protectedPlurals("CloneSet")},
		"all kinds are disabled":      {on: true, installed: true, before: true, disabled: known().Names(), want: []string{}},
		"without webhooks":            {on: true, installed: true, before: true, uncalled: true, want: protectedPlurals("")},
		"nothing that it can go with": {on: true, wantErr: installowner.ErrNone},
		"off, and nothing to go with": {before: true},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := documents(policy)
			if err != nil {
				t.Fatal(err)
			}
			stored := fake.NewClientBuilder()
			if tc.installed {
				stored = stored.WithObjects(installed)
			}
			if tc.before {
				stored = stored.WithObjects(objects[0], objects[1], objects[2])
			}
			applied := map[string]*unstructured.Unstructured{}
			c := interceptor.NewClient(stored.Build(), interceptor.Funcs{
				Apply: applying(func(object *unstructured.Unstructured) { applied[object.GetKind()] = object }),
			})
			p := &Protection{Client: c, Manifests: policy, Kinds: known(), On: tc.on, Path: "/ask"}
			if !tc.uncalled {
				p.Call = func(path string) (map[string]any, error) {
					return map[string]any{"url": "https://operator" + path}, nil
				}
			}
			if err := p.Apply(t.Context(), sets.New(tc.disabled...)); !errors.Is(err, tc.wantErr) {
				t.Fatalf("error %v, want %v", err, tc.wantErr)
			}
			if tc.want == nil {
				if len(applied) > 0 {
					t.Errorf("applied %v", applied)
				}
				for _, object := range objects {
					if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil || err == nil {
						t.Errorf("%s is still there: %v", object.GetKind(), err)
					}
				}
				return
			}
			webhook := applied["ValidatingWebhookConfiguration"]
			if len(applied) < 2 || (webhook == nil) != tc.uncalled {
				t.Fatalf("applied %v", applied)
			}
			if tc.uncalled {
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(objects[2]), objects[2]); !apierrors.IsNotFound(err) {
					t.Errorf("the webhook is still there: %v", err)
				}
			} else {
				entries, _, _ := unstructured.NestedSlice(webhook.Object, "webhooks")
				for _, entry := range entries {
					if url, _, _ := unstructured.NestedString(entry.(map[string]any), "clientConfig", "url"); url != "https://operator/ask" {
						t.Errorf("%v is called at %q", entry, url)
					}
				}
				if len(entries) != 2 {
					t.Errorf("entries %v", entries)
				}
			}
			for kind, object := range applied {
				if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != "installed" {
					t.Errorf("%s belongs to %v", kind, owners)
				}
			}
			rules, _, _ := unstructured.NestedSlice(applied["ValidatingAdmissionPolicy"].Object, "spec", "matchConstraints", "resourceRules")
			native, got := map[string]bool{}, []string{}
			for _, entry := range rules {
				rule, _ := entry.(map[string]any)
				groups, _, _ := unstructured.NestedStringSlice(rule, "apiGroups")
				resources, _, _ := unstructured.NestedStringSlice(rule, "resources")
				for _, resource := range resources {
					if groups[0] == "apps.kruise.io" {
						got = append(got, resource)
					} else {
						native[groups[0]+"/"+resource] = true
					}
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("protects %v, want %v", got, tc.want)
			}
			for _, resource := range []string{
				"/namespaces", "/services", "apps/deployments", "apps/replicasets", "apps/statefulsets", "networking.k8s.io/ingresses",
				"apiextensions.k8s.io/customresourcedefinitions",
			} {
				if !native[resource] {
					t.Errorf("%s is not protected", resource)
				}
			}
		})
	}
}
