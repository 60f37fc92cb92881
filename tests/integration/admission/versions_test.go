// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admission_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
	"github.com/kruise-operator/kruise-operator/tests/framework/reach"
)

// watchTimeout is how long an event, or a change of configuration, may take to arrive.
const watchTimeout = 30 * time.Second

func (e *env) dynamic(t *testing.T, version, namespace string) dynamic.ResourceInterface {
	t.Helper()
	c, err := dynamic.NewForConfig(e.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	group := appsv1beta1.GroupVersion()
	group.Version = version
	return c.Resource(group.WithResource(e.resource)).Namespace(namespace)
}

func testListAndWatch(t *testing.T, e *env) {
	ns := e.namespace(t)
	policy := map[string][]string{
		"v1beta1":  {"spec", "updateStrategy", "rollingUpdate", "podUpdatePolicy"},
		"v1alpha1": {"spec", "updateStrategy", "type"},
	}
	events := map[string]func(want string){}
	for version, path := range policy {
		watcher, err := e.dynamic(t, version, ns).Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(watcher.Stop)
		events[version] = func(want string) {
			t.Helper()
			select {
			case event := <-watcher.ResultChan():
				object, ok := event.Object.(*unstructured.Unstructured)
				if !ok {
					t.Fatalf("watching %s: %v", version, event)
				}
				is, _, _ := unstructured.NestedString(object.Object, path...)
				if got := fmt.Sprintf("%s %s %s %s", event.Type, object.GetAPIVersion(), object.GetName(), is); got != strings.Replace(want, "VERSION", "apps.kruise.io/"+version, 1) {
					t.Errorf("watching %s: %s, want %s", version, got, want)
				}
			case <-time.After(watchTimeout):
				t.Fatalf("watching %s: no event for %s", version, want)
			}
		}
	}
	each := func(want string) {
		t.Helper()
		for version := range policy {
			events[version](want)
		}
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		if got := e.send(t, http.MethodPost, version, ns, "", cloneSet(version, version, "podUpdatePolicy: InPlaceIfPossible"), nil); got.err != nil {
			t.Fatal(got.err)
		}
		each("ADDED VERSION " + version + " InPlaceIfPossible")
	}
	if got := e.send(t, http.MethodPatch, "v1alpha1", ns, "v1beta1", `{spec: {updateStrategy: {type: ReCreate}}}`, nil); got.err != nil {
		t.Fatal(got.err)
	}
	each("MODIFIED VERSION v1beta1 ReCreate")
	for version, path := range policy {
		list, err := e.dynamic(t, version, ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, item := range list.Items {
			is, _, _ := unstructured.NestedString(item.Object, path...)
			got[item.GetName()] = item.GetAPIVersion() + " " + is
		}
		api := "apps.kruise.io/" + version
		if diff := cmp.Diff(map[string]string{"v1beta1": api + " ReCreate", "v1alpha1": api + " InPlaceIfPossible"}, got); diff != "" {
			t.Errorf("listing %s (-want +got):\n%s", version, diff)
		}
	}
	if err := e.dynamic(t, "v1alpha1", ns).Delete(t.Context(), "v1beta1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	each("DELETED VERSION v1beta1 ReCreate")
}

func testScale(t *testing.T, e *env) {
	ns := e.namespace(t)
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", cloneSet("v1beta1", "web", ""), nil); got.err != nil {
		t.Fatal(got.err)
	}
	for i, version := range []string{"v1beta1", "v1alpha1"} {
		sets := e.dynamic(t, version, ns)
		status := fmt.Sprintf(`{"status":{"replicas":%d,"labelSelector":"app=web"}}`, 5+i)
		if _, err := sets.Patch(t.Context(), "web", types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		scale, err := sets.Get(t.Context(), "web", metav1.GetOptions{}, "scale")
		if err != nil {
			t.Fatal(err)
		}
		if err := unstructured.SetNestedField(scale.Object, int64(7+i), "spec", "replicas"); err != nil {
			t.Fatal(err)
		}
		if scale, err = sets.Update(t.Context(), scale, metav1.UpdateOptions{}, "scale"); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"spec": map[string]any{"replicas": int64(7 + i)}, "status": map[string]any{"replicas": int64(5 + i), "selector": "app=web"}}
		if diff := cmp.Diff(want, map[string]any{"spec": scale.Object["spec"], "status": scale.Object["status"]}); diff != "" {
			t.Errorf("scale in %s (-want +got):\n%s", version, diff)
		}
		if _, err := sets.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":-1}}`), metav1.PatchOptions{}, "scale"); !apierrors.IsInvalid(err) {
			t.Errorf("negative replicas through scale in %s: %v", version, err)
		}
	}
}

func testCloneSetPrinting(t *testing.T, e *env) {
	ns := e.namespace(t)
	if got := e.send(t, http.MethodPost, "v1alpha1", ns, "", cloneSet("v1alpha1", "web", ""), nil); got.err != nil {
		t.Fatal(got.err)
	}
	status := `{"status":{"replicas":6,"readyReplicas":5,"updatedReplicas":4,"updatedReadyReplicas":3,"updatedAvailableReplicas":2,"labelSelector":"app=web"}}`
	if _, err := e.dynamic(t, "v1beta1", ns).Patch(t.Context(), "web", types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	narrow := []string{"NAME", "DESIRED", "UPDATED", "UPDATED_READY", "UPDATED_AVAILABLE", "READY", "TOTAL", "AGE"}
	values := []string{"web", "3", "4", "3", "2", "5", "6"}
	for _, resource := range []string{"clone", "cloneset", "clonesets", "clonesets.v1beta1.apps.kruise.io", "clonesets.v1alpha1.apps.kruise.io"} {
		for mode, more := range map[string][2][]string{
			"":     {},
			"wide": {{"CONTAINERS", "IMAGES", "SELECTOR"}, {"main", "example/web:v1", "app=web"}},
		} {
			out, err := e.cluster.Kubectl(t.Context(), "get", "--namespace="+ns, resource, "-o", mode).CombinedOutput()
			if err != nil {
				t.Errorf("get %s -o %q: %v: %s", resource, mode, err, out)
				continue
			}
			header, row, _ := strings.Cut(string(out), "\n")
			cells := strings.Fields(row)
			if len(cells) > len(values) {
				cells = append(cells[:len(values):len(values)], cells[len(values)+1:]...) // without the age
			}
			if diff := cmp.Diff(slices.Concat(narrow, more[0], []string{"STALLED"}), strings.Fields(header)); diff != "" {
				t.Errorf("get %s -o %q: columns (-want +got):\n%s", resource, mode, diff)
			}
			if diff := cmp.Diff(append(values[:len(values):len(values)], more[1]...), cells); diff != "" {
				t.Errorf("get %s -o %q: row (-want +got):\n%s", resource, mode, diff)
			}
		}
	}
}

// testFinding lists objects by the category, and by fields people filter by.
func testFinding(t *testing.T, e *env) {
	ns := e.namespace(t)
	if got := e.send(t, http.MethodPost, "v1alpha1", ns, "", cloneSet("v1alpha1", "web", ""), nil); got.err != nil {
		t.Fatal(got.err)
	}
	for want, arguments := range map[string][]string{
		"cloneset.apps.kruise.io/web\n": {"openkruise", "--output=name"},
		"":                              {"crr", "--field-selector=spec.podName=web-0,status.phase=Completed", "--output=name"},
	} {
		out, err := e.cluster.Kubectl(t.Context(), append([]string{"get", "--namespace=" + ns}, arguments...)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("get %v: %v: %s", arguments, err, out)
		}
	}
}

// testApply applies manifests again and again, as delivery tools do: nothing may change, in whichever way and version.
func testApply(t *testing.T, e *env) {
	for _, mode := range []string{"--server-side", "--server-side=false"} {
		for _, version := range []string{"v1beta1", "v1alpha1"} {
			t.Run(version+mode, func(t *testing.T) {
				ns := e.namespace(t)
				apply := func(version string, edits ...string) {
					t.Helper()
					file := filepath.Join(t.TempDir(), "manifest.yaml")
					manifest := cloneSet(version, "web", "podUpdatePolicy: InPlaceIfPossible, maxSurge: 1", edits...)
					if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
						t.Fatal(err)
					}
					out, err := e.cluster.Kubectl(t.Context(), "apply", mode, "--namespace="+ns, "-f", file).CombinedOutput()
					if err != nil || strings.Contains(string(out), "Warning") {
						t.Fatalf("%v: %s", err, out)
					}
				}
				apply(version)
				before := e.get(t, version, ns, "web")
				apply(version)
				if diff := cmp.Diff(before.Object, e.get(t, version, ns, "web").Object); diff != "" {
					t.Errorf("after applying it again (-before +after):\n%s", diff)
				}
				apply(version, "replicas: 3", "replicas: 4", "image: example/web:v1", "image: example/web:v2")
				after := e.get(t, version, ns, "web")
				if after.GetGeneration() != before.GetGeneration()+1 {
					t.Errorf("the generation went from %d to %d", before.GetGeneration(), after.GetGeneration())
				}
				for _, path := range [][]string{{"updateStrategy"}, {"revisionHistoryLimit"}, {"selector"}} {
					full := append([]string{"spec"}, path...)
					was, _, _ := unstructured.NestedFieldNoCopy(before.Object, full...)
					is, _, _ := unstructured.NestedFieldNoCopy(after.Object, full...)
					if diff := cmp.Diff(was, is); diff != "" {
						t.Errorf("%v changed with replicas and image (-before +after):\n%s", path, diff)
					}
				}
			})
		}
	}
}

// testCloneSetSchema shows the rules without webhooks. Conversion exists: it goes with the
// CRD.
func testCloneSetSchema(t *testing.T, e *env, ns string) {
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for name, tc := range map[string]struct {
			rolling string
			edits   []string
			want    []string
		}{
			"negative replicas":              {edits: []string{"replicas: 3", "replicas: -1"}, want: []string{`spec.replicas: Invalid value: -1`}},
			"no selector":                    {edits: []string{"  selector:\n    matchLabels: {app: web}\n", ""}, want: []string{`spec.selector: Required value`}},
			"an unknown policy":              {rolling: "podUpdatePolicy: Inplace", want: []string{`rolling.podUpdatePolicy: Unsupported value: "Inplace"`}},
			"a list for an object":           {edits: []string{"updateStrategy:", "scaleStrategy: []\n  updateStrategy:"}, want: []string{`spec.scaleStrategy: Invalid value: "array"`}},
			"nulls for what may be left out": {edits: []string{"replicas: 3", "replicas: null\n  volumeClaimTemplates: null\n  lifecycle: null\n  scaleStrategy: null\n  progressDeadlineSeconds: null"}},
		} {
			t.Run(version+"/"+name, func(t *testing.T) {
				got := e.send(t, http.MethodPost, version, ns, "", cloneSet(version, "x", tc.rolling, tc.edits...), map[string]string{"dryRun": "All"})
				expectRefusal(t, version, tc.want, got)
			})
		}
		name := "bare-" + version
		bare := cloneSet(version, name, "partition: many")
		if got := e.send(t, http.MethodPost, version, ns, "", bare, nil); got.err != nil {
			t.Fatal(got.err)
		}
		for title, tc := range map[string]struct {
			patch string
			want  []string
		}{
			"the selector": {patch: `{spec: {selector: {matchLabels: {tier: a}}}}`, want: []string{`spec.selector: Forbidden: cannot be changed once the set exists`}},
			"replicas":     {patch: `{spec: {replicas: 1}}`},
			"metadata":     {patch: `{metadata: {labels: {a: b}}}`},
		} {
			for _, through := range []string{"v1beta1", "v1alpha1"} {
				t.Run(name+" through "+through+"/"+title, func(t *testing.T) {
					got := e.send(t, http.MethodPatch, through, ns, name, tc.patch, map[string]string{"dryRun": "All"})
					expectRefusal(t, through, tc.want, got)
				})
			}
		}
	}

	// Typed clients of either version cannot read this number. It must not hide the set, nor any other.
	huge := cloneSet("v1beta1", "huge", "maxUnavailable: 4294967296")
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", huge, nil); got.err != nil {
		t.Fatal(got.err)
	}
	t.Run("a number that nobody can read", func(t *testing.T) {
		list, err := e.dynamic(t, "v1alpha1", ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		limits := map[string]any{}
		for _, set := range list.Items {
			limits[set.GetName()], _, _ = unstructured.NestedFieldNoCopy(set.Object, "spec", "updateStrategy", "maxUnavailable")
		}
		if diff := cmp.Diff(map[string]any{"huge": int64(4294967296), "bare-v1alpha1": nil, "bare-v1beta1": nil}, limits); diff != "" {
			t.Errorf("maxUnavailable as v1alpha1 has it (-want +got):\n%s", diff)
		}
		if got := e.send(t, http.MethodPatch, "v1alpha1", ns, "huge", `{spec: {updateStrategy: {maxUnavailable: 2}}}`, nil); got.err != nil {
			t.Fatal(got.err)
		}
		mended, _, _ := unstructured.NestedFieldNoCopy(e.get(t, "v1beta1", ns, "huge").Object, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable")
		if mended != int64(2) {
			t.Errorf("mended through v1alpha1, maxUnavailable is %v", mended)
		}
	})
}

// keptSets are two CloneSets in need of conversion: one has fields only v1alpha1 knows, one
// is stored in v1alpha1, once the storage version.
type keptSets struct {
	namespace string
	strategy  any
}

func createKept(t *testing.T, e *env) keptSets {
	t.Helper()
	k := keptSets{namespace: e.namespace(t)}
	body := cloneSet("v1alpha1", "only-v1alpha1", "podUpdatePolicy: OnDelete, partition: 2, paused: true")
	created := e.send(t, http.MethodPost, "v1alpha1", k.namespace, "", body, nil)
	if created.err != nil {
		t.Fatal(created.err)
	}
	k.strategy, _, _ = unstructured.NestedFieldNoCopy(created.body.Object, "spec", "updateStrategy")

	e.store(t, k.namespace, "v1alpha1")
	created = e.send(t, http.MethodPost, "v1alpha1", k.namespace, "", cloneSet("v1alpha1", "stored-v1alpha1", "podUpdatePolicy: InPlaceOnly, partition: 1"), nil)
	e.store(t, k.namespace, "v1beta1")
	if created.err != nil {
		t.Fatal(created.err)
	}
	return k
}

// store makes a version of the CRD the stored one and waits for the API server. No answer
// shows the stored version, so the same change renames a column. There must be an object in
// the namespace.
func (e *env) store(t *testing.T, namespace, version string) {
	t.Helper()
	column := map[string]string{"v1beta1": "DESIRED", "v1alpha1": "STORED_AS_V1ALPHA1"}[version]
	patch := fmt.Sprintf(`[{"op":"test","path":"/spec/versions/0/name","value":"v1alpha1"},
		{"op":"replace","path":"/spec/versions/0/storage","value":%t},
		{"op":"replace","path":"/spec/versions/1/storage","value":%t},
		{"op":"replace","path":"/spec/versions/1/additionalPrinterColumns/0/name","value":%q}]`, version == "v1alpha1", version == "v1beta1", column)
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName(e.resource + ".apps.kruise.io")
	if err := e.client.Patch(t.Context(), crd, client.RawPatch(types.JSONPatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	NewWithT(t).Eventually(func(ctx context.Context) (string, error) {
		out, err := e.cluster.Kubectl(ctx, "get", "--namespace="+namespace, e.resource+".v1beta1.apps.kruise.io").CombinedOutput()
		return string(out), err
	}).WithContext(t.Context()).WithTimeout(watchTimeout).Should(ContainSubstring(column))
}

// testAway shows the API without conversion, and that nothing is lost when it returns.
func testAway(t *testing.T, e *env, kept keptSets, back func(*testing.T)) {
	failure := `conversion webhook for apps.kruise.io/v1beta1, Kind=CloneSet failed: Post "https://127.0.0.1:`
	got := e.send(t, http.MethodGet, "v1alpha1", kept.namespace, "only-v1alpha1", "", nil)
	if got.err == nil || !strings.Contains(got.err.Error(), failure) || !strings.Contains(got.err.Error(), "connection refused") {
		t.Errorf("reading v1alpha1: %v", got.err)
	}
	if read := e.get(t, "v1beta1", kept.namespace, "only-v1alpha1"); read.GetAnnotations() == nil {
		t.Error("the stored object does not carry what only v1alpha1 knows")
	}
	got = e.send(t, http.MethodGet, "v1beta1", kept.namespace, "stored-v1alpha1", "", nil)
	if got.err == nil || !strings.Contains(got.err.Error(), "conversion webhook for apps.kruise.io/v1alpha1, Kind=CloneSet failed") {
		t.Errorf("reading v1beta1 of what is stored in v1alpha1: %v", got.err)
	}
	back(t)
	read := e.get(t, "v1alpha1", kept.namespace, "only-v1alpha1")
	if diff := cmp.Diff(kept.strategy, read.Object["spec"].(map[string]any)["updateStrategy"]); diff != "" {
		t.Errorf("what only v1alpha1 knows (-before +after):\n%s", diff)
	}
	read = e.get(t, "v1beta1", kept.namespace, "stored-v1alpha1")
	policy, _, _ := unstructured.NestedString(read.Object, "spec", "updateStrategy", "rollingUpdate", "podUpdatePolicy")
	if policy != "InPlaceOnly" {
		t.Errorf("what is stored in v1alpha1 has the policy %q", policy)
	}
	// Any write stores it in v1beta1.
	if got := e.send(t, http.MethodPatch, "v1alpha1", kept.namespace, "stored-v1alpha1", `{metadata: {labels: {a: b}}}`, nil); got.err != nil {
		t.Error(got.err)
	}
}

// testAuthority takes the certificate away, as somebody may who deletes the Secret: the next one has another authority.
func testAuthority(t *testing.T, e *env) {
	authority := func() []byte {
		t.Helper()
		if _, err := e.serving.Reconcile(t.Context(), reconcile.Request{}); err != nil {
			t.Fatal(err)
		}
		stored := &corev1.Secret{}
		if err := e.client.Get(t.Context(), install.CertificateSecret(), stored); err != nil {
			t.Fatal(err)
		}
		return stored.Data["ca.crt"]
	}
	old := authority()
	secret := &unstructured.Unstructured{}
	secret.SetAPIVersion("v1")
	secret.SetKind("Secret")
	secret.SetNamespace(install.CertificateSecret().Namespace)
	secret.SetName(install.CertificateSecret().Name)
	if err := e.client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	next := authority()
	if bytes.Equal(old, next) {
		t.Fatal("the authority is the same")
	}
	if err := reach.Check(t.Context(), e.client, e.url, reach.Kinds()...); err != nil {
		t.Errorf("with another authority: %v", err)
	}
	bundle := base64.StdEncoding.EncodeToString(append(bytes.Clone(next), old...))
	for _, kind := range []string{"customresourcedefinition/clonesets.apps.kruise.io", "mutatingwebhookconfiguration/kruise-operator-mutating", "validatingwebhookconfiguration/kruise-operator-validating"} {
		out, err := e.cluster.Kubectl(t.Context(), "get", kind, "-o", "jsonpath={..caBundle}").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, got := range strings.Fields(string(out)) {
			if got != bundle {
				t.Errorf("%s does not trust both authorities", kind)
			}
		}
		if len(strings.Fields(string(out))) == 0 {
			t.Errorf("%s trusts nobody", kind)
		}
	}
}
