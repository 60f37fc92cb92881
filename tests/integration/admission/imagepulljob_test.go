// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admission_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// pullJob is an ImagePullJob of a version with more lines in its spec.
func pullJob(version, spec string) string {
	return "apiVersion: apps.kruise.io/" + version + "\nkind: ImagePullJob\nmetadata: {name: pull}\nspec:\n  image: example/web:v1\n" + spec
}

// testImagePullJob shows the schema's refusals, the same as OpenKruise's webhook's.
func testImagePullJob(t *testing.T, e *env) {
	t.Run("create", func(t *testing.T) { testCreatePullJob(t, e) })
	t.Run("update", func(t *testing.T) { testUpdatePullJob(t, e) })
	t.Run("fixtures", func(t *testing.T) { testStoredPullJobs(t, e) })
}

func testCreatePullJob(t *testing.T, e *env) {
	ns := e.namespace(t)
	cases := map[string]struct {
		spec        string
		wantFields  []string
		wantMessage string
	}{
		"the image alone": {},
		"everything": {spec: `
  pullSecrets: [registry]
  podSelector: {matchLabels: {app: web}, matchExpressions: [{key: tier, operator: Exists}]}
  parallelism: 3
  pullPolicy: {timeoutSeconds: 60, backoffLimit: 0}
  completionPolicy: {type: Always, activeDeadlineSeconds: 60, ttlSecondsAfterFinished: 0}
  sandboxConfig: {labels: {a: b}, annotations: {c: d}}
  imagePullPolicy: Always
`},
		"parallelism in quotes":      {spec: `  parallelism: "3"`},
		"parallelism of none":        {spec: `  parallelism: 0`},
		"nodes by name":              {spec: `  selector: {names: [a, b]}`},
		"nodes by label":             {spec: `  selector: {matchLabels: {a: b}}`},
		"for ever":                   {spec: `  completionPolicy: {type: Never}`},
		"a deadline without a limit": {spec: `  completionPolicy: {activeDeadlineSeconds: 600}`},

		"no image":                         {spec: `  image: ""`, wantFields: []string{"spec.image"}},
		"parallelism in percent":           {spec: `  parallelism: 30%`, wantFields: []string{"spec.parallelism"}, wantMessage: "percentages are not allowed"},
		"parallelism as a word":            {spec: `  parallelism: all`, wantFields: []string{"spec.parallelism"}},
		"negative parallelism":             {spec: `  parallelism: -1`, wantFields: []string{"spec.parallelism"}},
		"nodes by name and label":          {spec: `  selector: {names: [a], matchLabels: {a: b}}`, wantFields: []string{"spec.selector"}},
		"nodes by name and expression":     {spec: `  selector: {names: [a], matchExpressions: [{key: a, operator: Exists}]}`, wantFields: []string{"spec.selector"}},
		"a node twice":                     {spec: `  selector: {names: [a, b, a]}`, wantFields: []string{"spec.selector.names[2]"}},
		"nodes and pods":                   {spec: "  selector: {names: [a]}\n  podSelector: {matchLabels: {a: b}}", wantFields: []string{"spec"}, wantMessage: "selector and podSelector cannot be combined"},
		"an unknown completion":            {spec: `  completionPolicy: {type: Sometimes}`, wantFields: []string{"spec.completionPolicy.type"}},
		"a deadline shorter than a pull":   {spec: "  pullPolicy: {timeoutSeconds: 60}\n  completionPolicy: {activeDeadlineSeconds: 59}", wantFields: []string{"spec"}},
		"a deadline shorter than any pull": {spec: `  completionPolicy: {activeDeadlineSeconds: 599}`, wantFields: []string{"spec"}, wantMessage: "(600 when omitted)"},
		"a deadline of what has none":      {spec: `  completionPolicy: {type: Never, activeDeadlineSeconds: 900}`, wantFields: []string{"spec.completionPolicy"}},
		"an end of what has none":          {spec: `  completionPolicy: {type: Never, ttlSecondsAfterFinished: 900}`, wantFields: []string{"spec.completionPolicy"}},
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for name, tc := range cases {
			t.Run(version+"/"+name, func(t *testing.T) {
				body := pullJob(version, tc.spec)
				if strings.HasPrefix(tc.spec, "  image:") {
					body = strings.Replace(body, "  image: example/web:v1\n", "", 1)
				}
				got := e.send(t, http.MethodPost, version, ns, "", body, map[string]string{"dryRun": "All"})
				got.check(t, tc.wantFields, tc.wantMessage)
				if len(got.warnings) > 0 {
					t.Errorf("warnings: %v", got.warnings)
				}
			})
		}
	}
}

func testUpdatePullJob(t *testing.T, e *env) {
	ns := e.namespace(t)
	if got := e.send(t, http.MethodPost, "v1alpha1", ns, "", pullJob("v1alpha1", "  pullSecrets: [a]\n"), nil); got.err != nil {
		t.Fatal(got.err)
	}
	for patch, refused := range map[string]bool{
		`{"spec": {"pullSecrets": ["b"]}}`:                      true,
		`{"spec": {"pullSecrets": null}}`:                       true,
		`{"spec": {"parallelism": 5}}`:                          false,
		`{"metadata": {"finalizers": ["example.io/hold"]}}`:     false,
		`{"spec": {"pullSecrets": ["a"], "image": "other:v2"}}`: false,
		`{"metadata": {"finalizers": null}}`:                    false,
	} {
		for _, version := range []string{"v1beta1", "v1alpha1"} {
			got := e.send(t, http.MethodPatch, version, ns, "pull", patch, map[string]string{"dryRun": "All"})
			if refused != (got.err != nil) {
				t.Errorf("%s in %s is refused: %v", patch, version, got.err)
			}
			if refused && !cmp.Equal(fields(got.err), []string{"spec.pullSecrets"}) {
				t.Errorf("%s in %s is refused for %v", patch, version, fields(got.err))
			}
		}
	}
	e.remove(t, ns, "pull")
}

// testStoredPullJobs stores OpenKruise's objects, status included, finds them unchanged in
// both versions, and prints them.
func testStoredPullJobs(t *testing.T, e *env) {
	paths, err := filepath.Glob("../../testdata/openkruise-1.9/imagepulljob*/state.yaml")
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
		ns := e.namespace(t)
		for _, item := range list.Items {
			object := &unstructured.Unstructured{Object: item}
			if object.GetKind() != "ImagePullJob" {
				continue
			}
			found++
			object.SetNamespace(ns)
			object.SetUID("")
			object.SetResourceVersion("")
			object.SetOwnerReferences(nil)
			object.SetFinalizers(nil) // nobody would take it away
			want := normal(t, object)
			status := object.DeepCopy()
			if err := e.client.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			status.SetResourceVersion(object.GetResourceVersion())
			if err := e.client.Status().Update(t.Context(), status); err != nil {
				t.Fatal(err)
			}
			for _, version := range []string{"v1beta1", "v1alpha1"} {
				got := normal(t, e.get(t, version, ns, object.GetName()))
				for _, part := range []string{"spec", "status"} {
					if diff := cmp.Diff(want[part], got[part]); diff != "" {
						t.Errorf("%s of %s in %s (-stored by OpenKruise +read here):\n%s", part, object.GetName(), version, diff)
					}
				}
				testReplaced(t, e, version, ns, object.GetName())
				out, err := e.cluster.Kubectl(t.Context(), "get", "--namespace="+ns, "imagepulljobs."+version+".apps.kruise.io", object.GetName()).CombinedOutput()
				header, row, _ := strings.Cut(string(out), "\n")
				if err != nil || !cmp.Equal(strings.Fields(header), []string{"NAME", "TOTAL", "ACTIVE", "SUCCEED", "FAILED", "AGE", "MESSAGE", "STALLED"}) ||
					!strings.HasPrefix(row, object.GetName()) {
					t.Errorf("kubectl get in %s: %v: %s", version, err, out)
				}
			}
			e.remove(t, ns, object.GetName())
		}
	}
	if found < 4 {
		t.Errorf("%d jobs in %v", found, paths)
	}
}

// remove deletes an object, so nothing of its kind is left.
func (e *env) remove(t *testing.T, ns, name string) {
	t.Helper()
	if got := e.send(t, http.MethodDelete, "v1beta1", ns, name, "", nil); got.err != nil {
		t.Fatal(got.err)
	}
}
