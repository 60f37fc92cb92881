// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"
)

const full = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: kruise-operator-mutating
webhooks:
- name: a.kruise.io
  clientConfig: {service: {name: svc, namespace: ns, path: /a}}
  rules: [{resources: [statefulsets]}]
- name: b.kruise.io
  clientConfig: {service: {name: svc, namespace: ns, path: /b}}
  rules: [{resources: [clonesets]}]
`

func TestEntriesOfDisabledKindsGoAndComeBack(t *testing.T) {
	installed := map[string]string{
		"inside of the cluster": strings.NewReplacer("name: svc,", "name: service, port: 443,", "path: /a}", "path: /a}, caBundle: Q0E=", "path: /b}", "path: /b}, caBundle: Q0E=").Replace(full),
		"outside of it": strings.NewReplacer("service: {name: svc, namespace: ns, path: /a}", "url: 'https://192.0.2.7:9443/a', caBundle: Q0E=",
			"service: {name: svc, namespace: ns, path: /b}", "url: 'https://192.0.2.7:9443/b', caBundle: Q0E=").Replace(full),
		"with an entry of somebody else": full + "- name: other.example\n  clientConfig: {url: 'https://other.example/x'}\n  rules: [{resources: [statefulsets]}]\n",
	}
	for name, text := range installed {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
				t.Fatal(err)
			}
			c := fake.NewClientBuilder().WithObjects(object).Build()
			w := &Webhooks{Client: c, Manifests: []byte(full)}
			read := func() *unstructured.Unstructured {
				t.Helper()
				got := &unstructured.Unstructured{}
				got.SetGroupVersionKind(object.GroupVersionKind())
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), got); err != nil {
					t.Fatal(err)
				}
				return got
			}
			apply := func(disabled ...string) {
				t.Helper()
				if err := w.Apply(t.Context(), sets.New(disabled...)); err != nil {
					t.Fatal(err)
				}
			}
			entries := func() map[string]any {
				t.Helper()
				list, err := entriesOf(read())
				if err != nil {
					t.Fatal(err)
				}
				byName := map[string]any{}
				for _, entry := range list {
					byName[entry["name"].(string)] = entry
				}
				return byName
			}
			before, version := entries(), read().GetResourceVersion()
			apply()
			if now := read().GetResourceVersion(); now != version {
				t.Error("a configuration that is right was written")
			}
			apply("StatefulSet")
			got := entries()
			if _, found := got["a.kruise.io"]; found || got["b.kruise.io"] == nil {
				t.Errorf("entries without StatefulSet: %v", got)
			}
			apply("StatefulSet", "CloneSet")
			if got = entries(); got["a.kruise.io"] != nil || got["b.kruise.io"] != nil || (before["other.example"] != nil) != (got["other.example"] != nil) {
				t.Errorf("entries without any kind: %v", got)
			}
			version = read().GetResourceVersion()
			apply("StatefulSet", "CloneSet")
			if now := read().GetResourceVersion(); now != version {
				t.Error("a configuration that is right was written again")
			}
			apply("CloneSet")
			apply()
			if diff := cmp.Diff(before, entries()); diff != "" {
				t.Errorf("after all of them are back (-want +got):\n%s", diff)
			}
			if note, found := read().GetAnnotations()[clientAnnotation]; found {
				t.Errorf("the note stayed: %s", note)
			}
		})
	}
	t.Run("not installed", func(t *testing.T) {
		w := &Webhooks{Client: fake.NewClientBuilder().Build(), Manifests: []byte(full)}
		if err := w.Apply(t.Context(), sets.New("StatefulSet")); err != nil {
			t.Error(err)
		}
	})
	t.Run("emptied by somebody else", func(t *testing.T) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(full), &object.Object); err != nil {
			t.Fatal(err)
		}
		object.Object["webhooks"] = []any{}
		w := &Webhooks{Client: fake.NewClientBuilder().WithObjects(object).Build(), Manifests: []byte(full)}
		if err := w.Apply(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "apply its webhook configurations again") {
			t.Errorf("error %v", err)
		}
	})
}
