// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admission_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/platform/install"
	"github.com/kruise-operator/kruise-operator/internal/webhook/reach"
)

// testFixtures stores what OpenKruise stored, status included, and finds it unchanged.
func testFixtures(t *testing.T, e *env) {
	paths, err := filepath.Glob("../../testdata/openkruise-1.9/*/state*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			Items []map[string]any `json:"items"`
		}
		if err := yaml.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			object := &unstructured.Unstructured{Object: item}
			if object.GetKind() != "StatefulSet" || !strings.HasPrefix(object.GetAPIVersion(), "apps.kruise.io/") {
				continue
			}
			found++
			t.Run(strings.TrimPrefix(path, "../../testdata/openkruise-1.9/")+"/"+object.GetName(), func(t *testing.T) {
				ns := e.namespace(t)
				object.SetNamespace(ns)
				object.SetUID("")
				object.SetResourceVersion("")
				object.SetOwnerReferences(nil)
				want := normal(t, object)
				status := object.DeepCopy()
				if err := e.client.Create(t.Context(), object); err != nil {
					t.Fatal(err)
				}
				status.SetResourceVersion(object.GetResourceVersion())
				if err := e.client.Status().Update(t.Context(), status); err != nil {
					t.Fatal(err)
				}
				read := e.get(t, "v1beta1", ns, object.GetName())
				got := normal(t, read)
				// OpenKruise's own v1alpha1 loses the retention policy; Retain is what its absence means.
				for _, spec := range []map[string]any{want["spec"].(map[string]any), got["spec"].(map[string]any)} {
					if spec["persistentVolumeClaimRetentionPolicy"] == nil {
						spec["persistentVolumeClaimRetentionPolicy"] = map[string]any{"whenDeleted": "Retain", "whenScaled": "Retain"}
					}
				}
				for _, part := range []string{"spec", "status"} {
					if diff := cmp.Diff(want[part], got[part]); diff != "" {
						t.Errorf("%s (-stored by OpenKruise +stored here):\n%s", part, diff)
					}
				}
			})
		}
	}
	if found < 5 {
		t.Errorf("%d StatefulSets found in %d files", found, len(paths))
	}
}

// normal brings the numbers of YAML and JSON to one form.
func normal(t *testing.T, object *unstructured.Unstructured) map[string]any {
	t.Helper()
	text, err := yaml.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := yaml.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// testSamples applies the samples as they are, without a warning.
func testSamples(t *testing.T, e *env) {
	ns := e.namespace(t)
	for _, mode := range []string{"--server-side", "--server-side=false"} {
		cmd := e.cluster.Kubectl(t.Context(), "apply", mode, "--dry-run=server", "--namespace="+ns, "-f", "../../../config/samples/apps_v1alpha1_statefulset.yaml",
			"-f", "../../../config/samples/apps_v1beta1_statefulset.yaml", "-f", "../../../config/samples/apps_v1beta1_statefulset_full.yaml")
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(out), "Warning") {
			t.Errorf("apply %s: %v: %s", mode, err, out)
		}
	}
}

// testConformance runs the tests that use OpenKruise's public client. They are a module of their own, so a program of their own.
func testConformance(t *testing.T, e *env) {
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "./...")
	cmd.Dir = "../../conformance"
	cmd.Env = append(os.Environ(), "KUBECONFIG="+e.cluster.AdminKubeconfig())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") || !strings.Contains(string(out), "--- PASS: TestOlderClientsLoseNothing") {
		t.Errorf("not all of it ran:\n%s", out)
	}
}

// testReach has the API server call where nobody answers.
func testReach(t *testing.T, e *env) {
	if err := e.probe.Check(t.Context(), e.client, e.url); err != nil {
		t.Errorf("the webhooks of this process: %v", err)
	}

	// The webhooks answer, but to another process than the one that asks.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := reach.New().Check(ctx, e.client, e.url); err == nil {
		t.Error("a probe that no webhook knows was reached")
	}

	port, err := e.cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	nowhere := install.Options{WebhookURL: strings.TrimRight(e.url, "0123456789") + strconv.Itoa(port), Now: time.Now()}
	if err := install.Install(t.Context(), e.client, nowhere); err != nil {
		t.Fatal(err)
	}
	err = e.probe.Check(t.Context(), e.client, nowhere.WebhookURL)
	if err == nil {
		t.Fatal("an address where nobody listens was reached")
	}
	for _, part := range []string{nowhere.WebhookURL, "cannot reach the webhooks of this process", "connection refused", "WEBHOOK_URL"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
	if err := install.Install(t.Context(), e.client, install.Options{WebhookURL: e.url, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := e.probe.Check(t.Context(), e.client, e.url); err != nil {
		t.Errorf("after installing the right address again: %v", err)
	}
}

func testUninstall(t *testing.T, e *env) {
	ns := e.namespace(t)
	all := func() (objects []client.Object) {
		t.Helper()
		sets, clones := appsv1beta1.StatefulSetList{}, appsv1beta1.CloneSetList{}
		for _, list := range []client.ObjectList{&sets, &clones} {
			if err := e.client.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
		}
		for i := range sets.Items {
			objects = append(objects, &sets.Items[i])
		}
		for i := range clones.Items {
			objects = append(objects, &clones.Items[i])
		}
		return objects
	}
	deleteAll := func() {
		t.Helper()
		for _, object := range all() {
			if err := e.client.Delete(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	deleteAll()
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", manifest("v1beta1", "web"), nil); got.err != nil {
		t.Fatal(got.err)
	}
	if got := e.about("clonesets").send(t, http.MethodPost, "v1alpha1", ns, "", cloneSet("v1alpha1", "api", ""), nil); got.err != nil {
		t.Fatal(got.err)
	}
	options := install.Options{WebhookURL: e.url, Now: time.Now()}
	err := install.Uninstall(t.Context(), e.client, options)
	if err == nil {
		t.Fatal("uninstalled while sets exist")
	}
	for _, want := range []string{"1 statefulsets.apps.kruise.io exist (" + ns + "/web)", "1 clonesets.apps.kruise.io exist (" + ns + "/api)"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the refusal %q does not say %q", err, want)
		}
	}
	if left := all(); len(left) != 2 {
		t.Errorf("after the refusal there are %d sets, want 2", len(left))
	}

	deleteAll()
	if err := install.Uninstall(t.Context(), e.client, options); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []struct{ apiVersion, kind, name string }{
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "clonesets.apps.kruise.io"},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "statefulsets.apps.kruise.io"},
		{"admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "kruise-operator-mutating"},
		{"admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "kruise-operator-validating"},
		{"rbac.authorization.k8s.io/v1", "ClusterRole", "kruise-operator-manager"},
		{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "kruise-operator-manager"},
	} {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion(gone.apiVersion)
		object.SetKind(gone.kind)
		if err := e.client.Get(t.Context(), client.ObjectKey{Name: gone.name}, object); !apierrors.IsNotFound(err) {
			t.Errorf("%s %s after uninstalling: %v", gone.kind, gone.name, err)
		}
	}
	if err := install.Uninstall(t.Context(), e.client, options); err != nil {
		t.Errorf("uninstalling what is not there: %v", err)
	}
}
