// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

func TestRenderHasWhatAnOperatorOutsideNeeds(t *testing.T) {
	all, err := objects("https://192.0.2.7:9443/")
	if err != nil {
		t.Fatal(err)
	}
	stages := map[string]int{}
	last := 0
	for _, object := range all {
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

// The configurations' required fields of every webhook; the certificate is checked against
// a real one.
func TestWebhooksAreDeclaredAsDocumented(t *testing.T) {
	all, err := objects("https://192.0.2.7:9443/")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string][]string{}
	names := map[string]string{kindMutating: "kruise-operator-mutating", kindValidating: "kruise-operator-validating"}
	for _, object := range all {
		want, found := names[object.GetKind()]
		if !found {
			continue
		}
		if object.GetName() != want {
			t.Errorf("%s is named %s, want %s", object.GetKind(), object.GetName(), want)
		}
		webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
		if err != nil || len(webhooks) == 0 {
			t.Fatalf("%s has no webhooks: %v", want, err)
		}
		for _, w := range webhooks {
			webhook := w.(map[string]any)
			want := map[string]any{"failurePolicy": "Fail", "matchPolicy": "Equivalent", "sideEffects": "None", "timeoutSeconds": int64(10)}
			switch webhook["name"] {
			case "validate.sidecarsets.apps.kruise.io", "validate.workloadspreads.apps.kruise.io", "validate.rollouts.rollouts.kruise.io":
				want["sideEffects"] = "NoneOnDryRun" // it writes the registration of a new object
			case "warn.kruises.operator.kruise.io":
				want["failurePolicy"], want["timeoutSeconds"] = "Ignore", int64(5)
			}
			for field, value := range want {
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
			if url, _ := config["url"].(string); len(config) != 1 || !strings.HasPrefix(url, "https://192.0.2.7:9443/") {
				t.Errorf("%v: clientConfig %v", webhook["name"], config)
			}
		}
	}
	var ours []string
	for _, kind := range controllers.Table().Where(func(k kinds.Kind) bool { return k.Admission }) {
		ours = append(ours, kind.Plural)
	}
	validated := append(slices.Clone(ours), "kruises")
	if diff := cmp.Diff(map[string][]string{kindMutating: ours, kindValidating: validated}, seen); diff != "" {
		t.Errorf("resources, which must be the main resources of our kinds (-want +got):\n%s", diff)
	}
}

// A kind with differing versions is converted at the admission's address, the others by
// nobody.
func TestConversionIsDeclaredAsDocumented(t *testing.T) {
	all, err := objects("https://192.0.2.7:9443/")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]any{}
	for _, object := range all {
		if object.GetKind() != kindCRD {
			continue
		}
		seen[object.GetName()], _, _ = unstructured.NestedMap(object.Object, "spec", "conversion")
	}
	want := map[string]any{}
	for _, kind := range controllers.Table() {
		switch {
		case kind.Converted:
			want[kind.Definition()] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
				"conversionReviewVersions": []any{"v1"},
				"clientConfig":             map[string]any{"url": "https://192.0.2.7:9443/convert"},
			}}
		case len(kind.Versions) > 1:
			want[kind.Definition()] = map[string]any{"strategy": "None"}
		default:
			want[kind.Definition()] = map[string]any(nil) // one version
		}
	}
	for _, name := range []string{"clonesets", "daemonsets", "sidecarsets"} {
		if converted, _ := want[name+".apps.kruise.io"].(map[string]any); converted["strategy"] != "Webhook" {
			t.Errorf("the table does not have %s converted", name)
		}
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("conversion (-want +got):\n%s", diff)
	}
}
