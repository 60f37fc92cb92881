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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

var update = flag.Bool("update", false, "write the golden files")

// The registration, by each way, of the fixtures and of a canary.
func TestWhatIsRegistered(t *testing.T) {
	stored := fixtures.Objects(t, "sidecarset/state.yaml")
	canary := fixtures.Find(t, stored, "SidecarSet", "logs").DeepCopy()
	canary.SetName("logs-canary")
	canary.SetAnnotations(map[string]string{shared.AnnotationSidecarSetCanary: "true", shared.AnnotationSidecarSetBase: "logs"})
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
		show(sidecar.Binding(s.Name, s.Match, name, "kruise-system", metav1.OwnerReference{Kind: "SidecarSet", Name: s.Name}))
	}
	show(sidecar.Anchor("kruise-system"))
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
		"present, with many excluded":    {`{matchExpressions: [{key: a, operator: Exists}, {key: a, operator: NotIn, values: [proof-0, proof-1]}]}`, true},
		"absent":                         {`{matchExpressions: [{key: a, operator: DoesNotExist}]}`, true},
		"a contradiction":                {`{matchExpressions: [{key: a, operator: In, values: [x]}, {key: a, operator: DoesNotExist}]}`, false},
	} {
		s := set(t, "x", "selector: "+tc.spec+"\ncontainers: [{name: a, image: a}]")
		probe, possible := s.Match.Probe()
		if possible != tc.possible || possible && !s.Match.Selects(probe.Labels, nil) {
			t.Errorf("%s: %v, %v", name, probe.Labels, possible)
		}
	}
}
