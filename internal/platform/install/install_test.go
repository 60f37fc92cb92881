// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kruise-operator/kruise-operator/internal/platform/certs"
)

func TestRenderHasWhatAnOperatorOutsideNeeds(t *testing.T) {
	objects, err := render()
	if err != nil {
		t.Fatal(err)
	}
	stages := map[string]int{}
	last := 0
	for _, object := range objects {
		stages[object.GetKind()]++
		if s := stage(object); s < last {
			t.Errorf("%s comes too late", title(object))
		} else {
			last = s
		}
	}
	for _, kind := range []string{"Namespace", kindCRD, "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", kindMutating, kindValidating} {
		if stages[kind] == 0 {
			t.Errorf("there is no %s", kind)
		}
	}
	for _, kind := range []string{"Deployment", "Service"} {
		if stages[kind] > 0 {
			t.Errorf("there is a %s", kind)
		}
	}
}

// What the API server must be told about every webhook of ours; the certificate is checked against a real one.
func TestWebhooksAreDeclaredAsDocumented(t *testing.T) {
	objects, err := render()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string][]string{}
	names := map[string]string{kindMutating: "kruise-operator-mutating", kindValidating: "kruise-operator-validating"}
	for _, object := range objects {
		want, found := names[object.GetKind()]
		if !found {
			continue
		}
		if object.GetName() != want {
			t.Errorf("%s is named %s, want %s", object.GetKind(), object.GetName(), want)
		}
		if err := callByURL(t.Context(), fake.NewClientBuilder().Build(), object, "https://192.0.2.7:9443", []byte("authority"), time.Time{}); err != nil {
			t.Fatal(err)
		}
		webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
		if err != nil || len(webhooks) == 0 {
			t.Fatalf("%s has no webhooks: %v", want, err)
		}
		for _, w := range webhooks {
			webhook := w.(map[string]any)
			for field, value := range map[string]any{
				"failurePolicy": "Fail", "matchPolicy": "Equivalent", "sideEffects": "None", "timeoutSeconds": int64(10),
			} {
				if diff := cmp.Diff(value, webhook[field]); diff != "" {
					t.Errorf("%v: %s (-want +got):\n%s", webhook["name"], field, diff)
				}
			}
			for _, r := range webhook["rules"].([]any) {
				rule := r.(map[string]any)
				if diff := cmp.Diff([]any{"CREATE", "UPDATE"}, rule["operations"]); diff != "" {
					t.Errorf("%v: operations (-want +got):\n%s", webhook["name"], diff)
				}
				for _, resource := range rule["resources"].([]any) {
					seen[object.GetKind()] = append(seen[object.GetKind()], resource.(string))
				}
			}
			config := webhook["clientConfig"].(map[string]any)
			if _, found := config["service"]; found || config["caBundle"] != "YXV0aG9yaXR5" {
				t.Errorf("%v: clientConfig %v", webhook["name"], config)
			}
		}
	}
	ours := []string{"clonesets", "statefulsets"}
	if diff := cmp.Diff(map[string][]string{kindMutating: ours, kindValidating: ours}, seen); diff != "" {
		t.Errorf("resources, which must be the main resources of our kinds (-want +got):\n%s", diff)
	}
}

// A kind whose versions differ is converted where admission is, and the others by nobody.
func TestConversionIsDeclaredAsDocumented(t *testing.T) {
	objects, err := render()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]any{}
	for _, object := range objects {
		if object.GetKind() != kindCRD {
			continue
		}
		if err := callByURL(t.Context(), fake.NewClientBuilder().Build(), object, "https://192.0.2.7:9443", []byte("authority"), time.Time{}); err != nil {
			t.Fatal(err)
		}
		seen[object.GetName()], _, _ = unstructured.NestedMap(object.Object, "spec", "conversion")
	}
	if diff := cmp.Diff(map[string]any{
		"clonesets.apps.kruise.io": map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"conversionReviewVersions": []any{"v1"},
			"clientConfig":             map[string]any{"url": "https://192.0.2.7:9443/convert", "caBundle": "YXV0aG9yaXR5"},
		}},
		"imagepulljobs.apps.kruise.io": map[string]any{"strategy": "None"},
		"statefulsets.apps.kruise.io":  map[string]any{"strategy": "None"},
		"kruises.operator.kruise.io":   map[string]any(nil), // one version
	}, seen); diff != "" {
		t.Errorf("conversion (-want +got):\n%s", diff)
	}
}

// The API server comes to trust another authority where it calls us, beside the old one, and nothing is said to it elsewhere.
func TestTrust(t *testing.T) {
	now := time.Now()
	first, second := newAuthority(t, now), newAuthority(t, now)
	writes := 0
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			writes++
			return c.Patch(ctx, object, patch, options...)
		},
	}).Build()
	objects, err := render()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		url := map[string]string{kindMutating: "https://192.0.2.8:9443"}[object.GetKind()]
		if url == "" {
			url = "https://192.0.2.7:9443"
		}
		if object.GetKind() == kindValidating || !calls(object) {
			continue // not installed, or nothing to say
		}
		if err := callByURL(t.Context(), c, object, url, first, now); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), object.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := Trust(t.Context(), c, Options{WebhookURL: "https://192.0.2.7:9443/", Now: now}, second); err != nil {
			t.Fatal(err)
		}
	}
	trusted := map[string]string{}
	for _, object := range objects {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			continue
		}
		if err := eachCall(object, func(_ string, config clientConfig) *clientConfig {
			trusted[object.GetKind()] = string(config.CABundle)
			return &config
		}); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{kindCRD: string(second) + string(first), kindMutating: string(first)}
	if diff := cmp.Diff(want, trusted); diff != "" {
		t.Errorf("trusted (-want +got):\n%s", diff)
	}
	if writes != 1 {
		t.Errorf("%d writes, want 1", writes)
	}
}

func newAuthority(t *testing.T, now time.Time) []byte {
	t.Helper()
	bundle, err := certs.Issue(certs.Bundle{}, []string{"192.0.2.7"}, now)
	if err != nil {
		t.Fatal(err)
	}
	return bundle.CA
}

func TestHosts(t *testing.T) {
	for url, want := range map[string]string{
		"https://127.0.0.1:9443":     "127.0.0.1",
		"https://[2001:db8::1]:9443": "2001:db8::1",
		"https://dev.example/":       "dev.example",
		"http://127.0.0.1:9443":      "",
		"127.0.0.1:9443":             "",
		"https://":                   "",
		"https://h:1/path":           "",
		"https://user@h:1":           "",
		"":                           "",
	} {
		hosts, err := Options{WebhookURL: url}.Hosts()
		if want == "" {
			if err == nil {
				t.Errorf("%q is taken: %v", url, hosts)
			}
			continue
		}
		if err != nil || !cmp.Equal(hosts, []string{want}) {
			t.Errorf("%q: hosts %v, %v", url, hosts, err)
		}
	}
}
