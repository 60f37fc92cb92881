// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
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
		"statefulsets.apps.kruise.io": map[string]any{"strategy": "None"},
		"kruises.operator.kruise.io":  map[string]any(nil), // one version
	}, seen); diff != "" {
		t.Errorf("conversion (-want +got):\n%s", diff)
	}
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
