// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
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
	spec := func(pod map[string]any) map[string]any { return pod["spec"].(map[string]any) }
	container := func(pod map[string]any, at int) map[string]any {
		return spec(pod)["containers"].([]any)[at].(map[string]any)
	}
	for name, tc := range map[string]struct {
		have           func() map[string]any
		lacks, changed string
	}{
		"what is there, with more": {have: func() map[string]any { return more }},
		"no sidecar":               {have: func() map[string]any { return object(t, shopPod) }, lacks: "metadata.annotations[kruise.io/sidecarset-hash]"},
		"another image, as of a webhook that uses a mirror": {have: func() map[string]any {
			pod := copied(t, want)
			container(pod, 0)["image"] = "mirror.example/else"
			return pod
		}, changed: "spec.containers[0].image"},
		"a sidecar without its image": {have: func() map[string]any {
			pod := copied(t, want)
			delete(container(pod, 0), "image")
			return pod
		}, lacks: "spec.containers[0].image"},
		"the mark alone": {have: func() map[string]any {
			pod := copied(t, want)
			spec(pod)["containers"] = spec(object(t, shopPod))["containers"]
			return pod
		}, lacks: "spec.containers[0]"},
		"the containers in another order": {have: func() map[string]any {
			pod := copied(t, want)
			slices.Reverse(spec(pod)["containers"].([]any))
			return pod
		}, lacks: "spec.containers[1]"},
	} {
		t.Run(name, func(t *testing.T) {
			if lacks, changed := compiled.Missing(want, tc.have()); lacks != tc.lacks || changed != tc.changed {
				t.Errorf("lacks %q, changed is %q", lacks, changed)
			}
		})
	}
}
