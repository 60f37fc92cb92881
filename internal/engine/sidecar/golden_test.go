// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/internal/engine/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

var update = flag.Bool("update", false, "write the golden files")

// What is registered for the SidecarSets of the fixtures, and for a canary beside one of them, by each way.
func TestWhatIsRegistered(t *testing.T) {
	stored := fixtures.Objects(t, "sidecarset/state.yaml")
	canary := fixtures.Find(t, stored, "SidecarSet", "logs").DeepCopy()
	canary.SetName("logs-canary")
	canary.SetAnnotations(map[string]string{sidecar.CanaryAnnotation: "true", sidecar.BaseAnnotation: "logs"})
	var sets []*sidecar.Set
	for _, object := range []map[string]any{canary.Object, fixtures.Find(t, stored, "SidecarSet", "logs").Object, fixtures.Find(t, stored, "SidecarSet", "mesh").Object} {
		s, err := sidecar.ParseSet(object)
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, s)
	}
	var text bytes.Buffer
	show := func(what any) {
		data, err := yaml.Marshal(what)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n")
		text.Write(data)
	}
	var registrations []sidecar.Registration
	for _, s := range sets {
		i, err := sidecar.Compile(s, sets)
		if err != nil {
			t.Fatal(err)
		}
		name, _, err := i.Encode()
		if err != nil {
			t.Fatal(err)
		}
		show(map[string]any{"revision": name, "data": i, "byWebhook": i.Webhooked()})
		registration := sidecar.Registration{Set: s.Name, Match: s.Match, Revision: name, FailurePolicy: admissionv1.Fail}
		registrations = append(registrations, registration)
		show(sidecar.Binding(registration, "kruise-system", metav1.OwnerReference{Kind: "SidecarSet", Name: s.Name}))
	}
	show(sidecar.Anchor("kruise-system", metav1.OwnerReference{Kind: "ClusterRoleBinding", Name: "owner"}))
	show(sidecar.Entries(registrations, "kruise-system", func(path string) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{URL: &path}
	}))
	file := filepath.Join("testdata", "registered.golden.yaml")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Error(diff)
	}
}

func TestExampleLabels(t *testing.T) {
	for name, tc := range map[string]struct {
		spec     string
		possible bool
	}{
		"labels":                         {`{matchLabels: {a: b}}`, true},
		"a value that another excludes":  {`{matchExpressions: [{key: a, operator: In, values: [x, z]}, {key: a, operator: NotIn, values: [x]}]}`, true},
		"present, with a value excluded": {`{matchExpressions: [{key: a, operator: Exists}, {key: a, operator: NotIn, values: [proof]}]}`, true},
		"absent":                         {`{matchExpressions: [{key: a, operator: DoesNotExist}]}`, true},
		"a contradiction":                {`{matchExpressions: [{key: a, operator: In, values: [x]}, {key: a, operator: DoesNotExist}]}`, false},
	} {
		s := set(t, "x", "selector: "+tc.spec+"\ncontainers: [{name: a, image: a}]")
		labels, possible := sidecar.ExampleLabels(s.Match.Labels)
		if possible != tc.possible || possible && !s.Match.Selects(labels, nil) {
			t.Errorf("%s: %v, %v", name, labels, possible)
		}
	}
}

func TestMissing(t *testing.T) {
	s := set(t, "log", "selector: {matchLabels: {app: shop}}\ncontainers: [{name: agent, image: a, resources: {limits: {cpu: 1000m}}}]")
	compiled, err := sidecar.Compile(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := object(t, shopPod)
	if _, err := compiled.Inject(sidecar.Pod{Object: want}); err != nil {
		t.Fatal(err)
	}
	more := copied(t, want)
	list := more["spec"].(map[string]any)["containers"].([]any)
	list[0].(map[string]any)["terminationMessagePath"] = "/x"
	list[0].(map[string]any)["resources"] = map[string]any{"limits": map[string]any{"cpu": "1"}}
	more["spec"].(map[string]any)["containers"] = append([]any{map[string]any{"name": "other"}}, list...)
	if lack := compiled.Missing(want, more); lack != "" {
		t.Errorf("what is there, with more, is said to lack %s", lack)
	}
	if lack := compiled.Missing(want, object(t, shopPod)); lack != "metadata.annotations[kruise.io/sidecarset-hash]" {
		t.Errorf("a pod without the sidecar lacks %q", lack)
	}
	other := copied(t, want)
	other["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["image"] = "else"
	if lack := compiled.Missing(want, other); lack != "spec.containers[0].image" {
		t.Errorf("a pod with another image lacks %q", lack)
	}
}
