// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	testingclock "k8s.io/utils/clock/testing"
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
  clientConfig: {service: {name: kruise-operator-manager-service, namespace: kruise-system, path: /a}}
  rules: [{resources: [statefulsets]}]
- name: b.kruise.io
  clientConfig: {service: {name: kruise-operator-manager-service, namespace: kruise-system, path: /b}}
  rules: [{resources: [clonesets]}]
`

func decoded(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

// keeper is an operator that knows its authority.
func keeper(t *testing.T, c client.Client, url string, ca []byte) *Serving {
	t.Helper()
	s := &Serving{options: Options{
		Client: c, Endpoint: Endpoint{Namespace: own, URL: url}, Configurations: []*unstructured.Unstructured{decoded(t, full)},
		Clock: testingclock.NewFakeClock(time.Now()),
	}}
	s.remember(ca)
	return s
}

func TestEntriesOfDisabledKindsGoAndComeBack(t *testing.T) {
	ca := authority(t, time.Now())
	bundle := ", caBundle: " + base64.StdEncoding.EncodeToString(ca) + "}"
	inside := strings.NewReplacer("path: /a}}", "path: /a, port: 443}"+bundle, "path: /b}}", "path: /b, port: 443}"+bundle).Replace(full)
	for name, tc := range map[string]struct{ installed, url string }{
		"inside of the cluster": {installed: inside},
		"outside of it": {url: "https://192.0.2.7:9443", installed: strings.NewReplacer(
			"service: {name: kruise-operator-manager-service, namespace: kruise-system, path: /a}}", "url: 'https://192.0.2.7:9443/a'"+bundle,
			"service: {name: kruise-operator-manager-service, namespace: kruise-system, path: /b}}", "url: 'https://192.0.2.7:9443/b'"+bundle,
		).Replace(full)},
		"with an entry of somebody else": {
			installed: inside + "- name: other.example\n  clientConfig: {url: 'https://other.example/x'}\n  rules: [{resources: [statefulsets]}]\n",
		},
		"with what an earlier version noted": {
			installed: strings.Replace(inside, "metadata:", "metadata:\n  annotations: {operator.kruise.io/webhook-client: '{}'}", 1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := decoded(t, tc.installed)
			c := fake.NewClientBuilder().WithObjects(object).Build()
			serving := keeper(t, c, tc.url, ca)
			read := func() *unstructured.Unstructured {
				t.Helper()
				got := &unstructured.Unstructured{}
				got.SetGroupVersionKind(object.GroupVersionKind())
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), got); err != nil {
					t.Fatal(err)
				}
				return got
			}
			apply := func(without ...string) {
				t.Helper()
				if err := serving.KeepEntries(t.Context(), sets.New(without...)); err != nil {
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
			apply("statefulsets")
			got := entries()
			if _, found := got["a.kruise.io"]; found || got["b.kruise.io"] == nil {
				t.Errorf("entries without StatefulSet: %v", got)
			}
			apply("statefulsets", "clonesets")
			if got = entries(); got["a.kruise.io"] != nil || got["b.kruise.io"] != nil || (before["other.example"] != nil) != (got["other.example"] != nil) {
				t.Errorf("entries without any kind: %v", got)
			}
			version = read().GetResourceVersion()
			apply("statefulsets", "clonesets")
			if now := read().GetResourceVersion(); now != version {
				t.Error("a configuration that is right was written again")
			}
			apply("clonesets")
			apply()
			if diff := cmp.Diff(before, entries()); diff != "" {
				t.Errorf("after all of them are back (-want +got):\n%s", diff)
			}
			if note, found := read().GetAnnotations()[formerAnnotation]; found {
				t.Errorf("the note stayed: %s", note)
			}
		})
	}
	t.Run("not installed", func(t *testing.T) {
		if err := keeper(t, fake.NewClientBuilder().Build(), "", ca).KeepEntries(t.Context(), sets.New("statefulsets")); err != nil {
			t.Error(err)
		}
	})
	t.Run("emptied by somebody else", func(t *testing.T) {
		object := decoded(t, full)
		object.Object["webhooks"] = []any{}
		c := fake.NewClientBuilder().WithObjects(object).Build()
		if err := keeper(t, c, "", nil).KeepEntries(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "not known yet") {
			t.Errorf("without an authority: error %v", err)
		}
		if err := keeper(t, c, "", ca).KeepEntries(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		if entries, err := entriesOf(object); err != nil || len(entries) != 2 {
			t.Errorf("the entries are %v, %v", entries, err)
		}
	})
}
