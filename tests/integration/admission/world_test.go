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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
	"github.com/kruise-operator/kruise-operator/tests/framework/reach"
)

// testFixtures stores OpenKruise's objects, status included, and finds them unchanged.
func testFixtures(t *testing.T, e *env) {
	paths, err := filepath.Glob("../../testdata/openkruise-1.9/*/state*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
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
			resource := map[string]string{"AdvancedCronJob": "advancedcronjobs", "BroadcastJob": "broadcastjobs", "CloneSet": "clonesets", "DaemonSet": "daemonsets", "EphemeralJob": "ephemeraljobs", "PersistentPodState": "persistentpodstates", "StatefulSet": "statefulsets", "UnitedDeployment": "uniteddeployments", "WorkloadSpread": "workloadspreads"}[object.GetKind()]
			if resource == "" || !strings.HasPrefix(object.GetAPIVersion(), "apps.kruise.io/") {
				continue
			}
			found[resource]++
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
				got := normal(t, e.about(resource).get(t, "v1beta1", ns, object.GetName()))
				// OpenKruise's own v1alpha1 loses the retention policy; its absence means
				// Retain.
				for _, spec := range []map[string]any{want["spec"].(map[string]any), got["spec"].(map[string]any)} {
					if resource == "statefulsets" && spec["persistentVolumeClaimRetentionPolicy"] == nil {
						spec["persistentVolumeClaimRetentionPolicy"] = map[string]any{"whenDeleted": "Retain", "whenScaled": "Retain"}
					}
				}
				for _, part := range []string{"spec", "status"} {
					if diff := cmp.Diff(want[part], got[part]); diff != "" {
						t.Errorf("%s (-stored by OpenKruise +stored here):\n%s", part, diff)
					}
				}
				for _, version := range []string{"v1beta1", "v1alpha1"} {
					testReplaced(t, e.about(resource), version, ns, object.GetName())
				}
			})
		}
	}
	if found["advancedcronjobs"] < 2 || found["broadcastjobs"] < 4 || found["clonesets"] < 5 || found["daemonsets"] < 2 || found["ephemeraljobs"] < 1 || found["persistentpodstates"] < 2 || found["statefulsets"] < 5 || found["uniteddeployments"] < 3 || found["workloadspreads"] < 2 {
		t.Errorf("in %d files there are %v", len(paths), found)
	}
}

// testReplaced writes an object back as read, in a version, and finds no change.
func testReplaced(t *testing.T, e *env, version, ns, name string) {
	t.Helper()
	before := e.get(t, "v1beta1", ns, name)
	if got := e.send(t, http.MethodPut, version, ns, name, text(t, e.get(t, version, ns, name)), nil); got.err != nil {
		t.Fatalf("replacing it in %s: %v", version, got.err)
	}
	after := e.get(t, "v1beta1", ns, name)
	for _, object := range []*unstructured.Unstructured{before, after} {
		object.SetManagedFields(nil)
		object.SetResourceVersion("") // with managedFields, their times change
	}
	if diff := cmp.Diff(before.Object, after.Object); diff != "" {
		t.Errorf("after replacing it with itself in %s (-before +after):\n%s", version, diff)
	}
}

// testManifestOverDefaults replaces an object with OpenKruise's defaults by its manifest.
func testManifestOverDefaults(t *testing.T, e *env) {
	const folder = "../../testdata/openkruise-1.9/cloneset-simple/"
	read := func(name string) map[string]any {
		t.Helper()
		content, err := os.ReadFile(folder + name)
		if err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if err := yaml.Unmarshal(content, &object); err != nil {
			t.Fatal(err)
		}
		return object
	}
	stored := &unstructured.Unstructured{}
	for _, item := range read("state-after-01.yaml")["items"].([]any) {
		if object, ok := item.(map[string]any); ok && object["kind"] == "CloneSet" {
			stored.Object = object
		}
	}
	ns := e.namespace(t)
	stored.SetNamespace(ns)
	stored.SetUID("")
	stored.SetResourceVersion("")
	if err := e.client.Create(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	out, err := e.cluster.Kubectl(t.Context(), "replace", "--namespace="+ns, "-f", folder+"01-applied.yaml").CombinedOutput()
	if err != nil || strings.Contains(string(out), "Warning") {
		t.Fatalf("%v: %s", err, out)
	}
	// The template is the manifest's; the revisions decide if it is another one. All else
	// is as before.
	want := normal(t, stored)["spec"].(map[string]any)
	want["template"] = read("01-applied.yaml")["spec"].(map[string]any)["template"]
	if diff := cmp.Diff(want, normal(t, e.get(t, "v1beta1", ns, stored.GetName()))["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
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

// testManifests applies the samples and the manifests of the documentation as they are, without a warning.
func testManifests(t *testing.T, e *env) {
	ns := e.namespace(t)
	runningPod(t, e, ns, "shop-0", "app", "log")
	runningPod(t, e, ns, "ring-0", "ring")
	runningPod(t, e, ns, "shard-0", "shard")
	sources := map[string][]string{"the samples": {"-k", "../../../config/samples"}}
	for page, blocks := range environment.DocumentedManifests(t, "../../../docs/kinds") {
		file := filepath.Join(t.TempDir(), page+".yaml")
		if err := os.WriteFile(file, []byte(strings.Join(blocks, "---\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		sources[page] = []string{"-f", file}
	}
	for source, arguments := range sources {
		for _, mode := range []string{"--server-side", "--server-side=false"} {
			arguments := append([]string{"apply", mode, "--dry-run=server", "--namespace=" + ns}, arguments...)
			out, err := e.cluster.Kubectl(t.Context(), arguments...).CombinedOutput()
			if err != nil || strings.Contains(string(out), "Warning") {
				t.Errorf("apply %s of %s: %v: %s", mode, source, err, out)
			}
		}
	}
}

// runningPod makes a pod look as its kubelet would have it. Requests for restarts name it in the samples.
func runningPod(t *testing.T, e *env, namespace, name string, containers ...string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
	if err := e.client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{NodeName: node.Name}}
	for _, container := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: container, Image: "example/" + container})
	}
	if err := e.client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	for _, container := range containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: container, ContainerID: "containerd://" + container, Ready: true})
	}
	if err := e.client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// testConformance runs the tests of OpenKruise's public client. They are their own module,
// so their own program.
func testConformance(t *testing.T, e *env) {
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "./...")
	cmd.Dir = "../../conformance"
	cmd.Env = append(os.Environ(), "KUBECONFIG="+e.cluster.AdminKubeconfig())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"TestOlderClientsLoseNothing", "TestCloneSet"} {
		if strings.Contains(string(out), "--- SKIP") || !strings.Contains(string(out), "--- PASS: "+name+" ") {
			t.Errorf("not all of it ran, %s among them:\n%s", name, out)
		}
	}
}

// testReach has the API server call where nobody answers.
func testReach(t *testing.T, e *env) {
	if err := reach.Check(t.Context(), e.client, e.url, reach.Kinds()...); err != nil {
		t.Errorf("the webhooks of this process: %v", err)
	}

	// The API server calls a process, but not the expected one.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := reach.Check(ctx, e.client, "https://192.0.2.7:9443", reach.Kinds()...); err == nil {
		t.Error("an address that the configurations do not name was reached")
	}

	port, err := e.cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	back := func(t *testing.T) {
		t.Helper()
		e.install(t)
		if err := reach.Check(t.Context(), e.client, e.url, reach.Kinds()...); err != nil {
			t.Errorf("after installing the right address again: %v", err)
		}
	}
	kept := createKept(t, e.about("clonesets"))
	nowhere := install.Options{WebhookURL: strings.TrimRight(e.url, "0123456789") + strconv.Itoa(port)}
	if err := install.Install(t.Context(), e.client, nowhere); err != nil {
		t.Fatal(err)
	}
	err = reach.Check(t.Context(), e.client, nowhere.WebhookURL, reach.Kinds()...)
	if err == nil {
		t.Fatal("an address where nobody listens was reached")
	}
	for _, part := range []string{nowhere.WebhookURL, "cannot reach the webhooks of this process", "connection refused", "WEBHOOK_URL"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
	t.Run("conversion", func(t *testing.T) { testAway(t, e.about("clonesets"), kept, back) })
	back(t)
}

func testUninstall(t *testing.T, e *env) {
	ns := e.namespace(t)
	all := func() (objects []client.Object) {
		t.Helper()
		for _, kind := range controllers.Table().Switchable() {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind.Stored())
			if err := e.client.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			for i := range list.Items {
				objects = append(objects, &list.Items[i])
			}
		}
		return objects
	}
	deleteAll := func() {
		t.Helper()
		for _, object := range all() {
			if len(object.GetFinalizers()) > 0 { // of a fixture: no controller runs here that would take it off
				if err := e.client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
					t.Fatal(err)
				}
			}
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
	options := install.Options{WebhookURL: e.url}
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
