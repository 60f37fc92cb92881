// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admission_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// imageList is an ImageListPullJob of a version with more lines in its spec.
func imageList(version, images, spec string) string {
	return "apiVersion: apps.kruise.io/" + version + "\nkind: ImageListPullJob\nmetadata: {name: bundle}\nspec:\n  images: [" + images + "]\n" + spec
}

// testImageListPullJob shows refusals and defaults, in both versions.
func testImageListPullJob(t *testing.T, e *env) {
	ns := e.namespace(t)
	cases := map[string]struct {
		images, spec string
		wantFields   []string
		wantMessage  string
	}{
		"images alone": {images: "a, b"},
		"255 images":   {images: many(255)},
		"everything": {images: "a", spec: `
  pullSecrets: [registry]
  podSelector: {matchLabels: {app: web}}
  parallelism: "3"
  pullPolicy: {timeoutSeconds: 60, backoffLimit: 0}
  completionPolicy: {type: Always, activeDeadlineSeconds: 60, ttlSecondsAfterFinished: 0}
  sandboxConfig: {labels: {a: b}}
  imagePullPolicy: Always
`},
		"for ever": {images: "a", spec: `  completionPolicy: {type: Never}`},

		"no image":                       {wantFields: []string{"spec.images"}, wantMessage: "must have 1 to 255 images"},
		"256 images":                     {images: many(256), wantFields: []string{"spec.images"}},
		"an image twice":                 {images: "a, b, a", wantFields: []string{"spec.images[2]"}, wantMessage: "is named twice"},
		"what is no image":               {images: `"a b"`, wantFields: []string{"spec.images[0]"}, wantMessage: "is no image"},
		"parallelism in percent":         {images: "a", spec: `  parallelism: 30%`, wantFields: []string{"spec.parallelism"}},
		"nodes and pods":                 {images: "a", spec: "  selector: {names: [x]}\n  podSelector: {matchLabels: {a: b}}", wantFields: []string{"spec"}},
		"a deadline shorter than a pull": {images: "a", spec: "  pullPolicy: {timeoutSeconds: 60}\n  completionPolicy: {activeDeadlineSeconds: 59}", wantFields: []string{"spec.completionPolicy.activeDeadlineSeconds"}},
		"an end of what has none":        {images: "a", spec: `  completionPolicy: {type: Never, ttlSecondsAfterFinished: 9}`, wantFields: []string{"spec.completionPolicy"}},
		"a negative number of tries":     {images: "a", spec: `  pullPolicy: {backoffLimit: -1}`, wantFields: []string{"spec.pullPolicy.backoffLimit"}},
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for name, tc := range cases {
			t.Run(version+"/"+name, func(t *testing.T) {
				got := e.send(t, http.MethodPost, version, ns, "", imageList(version, tc.images, tc.spec), map[string]string{"dryRun": "All"})
				if diff := cmp.Diff(tc.wantFields, fields(got.err)); diff != "" {
					t.Errorf("fields (-want +got):\n%s\n%v", diff, got.err)
				}
				if got.err != nil && !strings.Contains(got.err.Error(), tc.wantMessage) {
					t.Errorf("message %q does not contain %q", got.err, tc.wantMessage)
				}
			})
		}
	}
	if got := e.send(t, http.MethodPost, "v1alpha1", ns, "", imageList("v1alpha1", "a", "  pullSecrets: [x]\n"), nil); got.err != nil {
		t.Fatal(got.err)
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		spec, _, _ := unstructured.NestedMap(e.get(t, version, ns, "bundle").Object, "spec")
		want := map[string]any{
			"images": []any{"a"}, "pullSecrets": []any{"x"}, "completionPolicy": map[string]any{"type": "Always"},
			"pullPolicy": map[string]any{"timeoutSeconds": int64(600), "backoffLimit": int64(3)},
		}
		if diff := cmp.Diff(want, spec); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
		if got := e.send(t, http.MethodPatch, version, ns, "bundle", `{"spec": {"pullSecrets": ["y"]}}`, map[string]string{"dryRun": "All"}); got.err != nil {
			t.Errorf("other Secrets are refused in %s: %v", version, got.err)
		}
		out, err := e.cluster.Kubectl(t.Context(), "get", "--namespace="+ns, "imagelistpulljobs."+version+".apps.kruise.io", "bundle").CombinedOutput()
		header, _, _ := strings.Cut(string(out), "\n")
		if err != nil || !cmp.Equal(strings.Fields(header), []string{"NAME", "TOTAL", "SUCCEEDED", "COMPLETED", "AGE", "STALLED"}) {
			t.Errorf("kubectl get in %s: %v: %s", version, err, out)
		}
	}
	e.remove(t, ns, "bundle")
}

// many are so many images.
func many(n int) string {
	images := make([]string, n)
	for i := range images {
		images[i] = fmt.Sprintf("web:v%d", i)
	}
	return strings.Join(images, ", ")
}
