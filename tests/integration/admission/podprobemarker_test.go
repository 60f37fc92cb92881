// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admission_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// probeMarker is a PodProbeMarker with one probe; edits replace one text by another.
func probeMarker(edits ...string) string {
	return environment.Edited(`
apiVersion: apps.kruise.io/v1alpha1
kind: PodProbeMarker
metadata:
  name: game
spec:
  selector: {matchLabels: {app: game}}
  probes:
  - {name: idle, containerName: game, podConditionType: game.example/idle, probe: {exec: {command: [/idle.sh]}}}
`, edits...)
}

func testPodProbeMarker(t *testing.T, e *env) {
	t.Run("create", func(t *testing.T) { testCreateMarker(t, e) })
	t.Run("update", func(t *testing.T) { testUpdateMarker(t, e) })
	t.Run("fixtures", func(t *testing.T) { testStoredMarkers(t, e) })
}

// testCreateMarker shows the refusals of the schema, which comes first, and the webhook.
func testCreateMarker(t *testing.T, e *env) {
	ns := e.namespace(t)
	const probe, name, container = "{exec: {command: [/idle.sh]}}", "name: idle", "containerName: game"
	const second = "\n  - {name: idle, containerName: game, podConditionType: other, probe: {exec: {command: [/idle.sh]}}}\n"
	for what, tc := range map[string]struct {
		edits       []string
		wantFields  []string
		wantMessage string
	}{
		"all is well":                    {},
		"a policy and no condition":      {edits: []string{"podConditionType: game.example/idle", "markerPolicy: [{state: Failed, labels: {a: b}}]"}},
		"no selector":                    {edits: []string{"  selector: {matchLabels: {app: game}}\n", ""}, wantFields: []string{"spec.selector"}},
		"an empty selector":              {edits: []string{"{matchLabels: {app: game}}", "{}"}, wantFields: []string{"spec.selector"}, wantMessage: "must not be empty"},
		"a probe like a condition":       {edits: []string{name, "name: Ready"}, wantFields: []string{"spec.probes[0].name"}, wantMessage: "must not be the type of a condition"},
		"a # in the name":                {edits: []string{name, `name: "a#b"`}, wantFields: []string{"spec.probes[0].name"}},
		"two probes of one name":         {edits: []string{"spec:", "spec:", "\n  - {name: idle, containerName: game, podConditionType: game.example/idle, probe: {exec: {command: [/idle.sh]}}}\n", "\n  - {name: idle, containerName: game, podConditionType: game.example/idle, probe: {exec: {command: [/idle.sh]}}}" + second}, wantFields: []string{"spec.probes[1]"}, wantMessage: "Duplicate value"},
		"no container":                   {edits: []string{container, `containerName: ""`}, wantFields: []string{"spec.probes[0].containerName"}},
		"a port that cannot be":          {edits: []string{probe, "{tcpSocket: {port: 70000}}"}, wantFields: []string{"spec.probes[0].probe.tcpSocket.port"}, wantMessage: "1 to 65535"},
		"two handlers":                   {edits: []string{probe, "{exec: {command: [a]}, tcpSocket: {port: 1}}"}, wantFields: []string{"spec.probes[0].probe"}, wantMessage: "exactly one of"},
		"grpc":                           {edits: []string{probe, "{grpc: {port: 1}}"}, wantFields: []string{"spec.probes[0].probe.grpc"}},
		"another host":                   {edits: []string{probe, "{httpGet: {path: /, port: 80, host: db}}"}, wantFields: []string{"spec.probes[0].probe.httpGet.host"}},
		"a negative period":              {edits: []string{probe, "{exec: {command: [a]}, periodSeconds: -1}"}, wantFields: []string{"spec.probes[0].probe.periodSeconds"}},
		"results for nothing":            {edits: []string{"podConditionType: game.example/idle, ", ""}, wantFields: []string{"spec.probes[0].podConditionType"}},
		"an unknown state":               {edits: []string{name, `name: idle, markerPolicy: [{state: "True", labels: {a: b}}]`}, wantFields: []string{"spec.probes[0].markerPolicy[0].state"}},
		"a label of the selector":        {edits: []string{name, `name: idle, markerPolicy: [{state: Failed, labels: {app: x}}]`}, wantFields: []string{"spec.probes[0].markerPolicy[0].labels[app]"}},
		"a list longer than it may be":   {edits: []string{probe, "{exec: {command: [a" + strings.Repeat(",a", 100) + "]}}"}, wantFields: []string{"spec.probes[0].probe.exec.command"}},
		"a condition of the kubelet":     {edits: []string{"game.example/idle", "ContainersReady"}, wantFields: []string{"spec.probes[0].podConditionType"}},
		"a condition of this operator's": {edits: []string{"game.example/idle", "InPlaceUpdateReady"}, wantFields: []string{"spec.probes[0].podConditionType"}},
	} {
		t.Run(what, func(t *testing.T) {
			got := e.send(t, http.MethodPost, "v1alpha1", ns, "", probeMarker(tc.edits...), map[string]string{"dryRun": "All"})
			if (tc.wantFields != nil) != (got.err != nil) {
				t.Fatalf("refused: %v", got.err)
			}
			if diff := cmp.Diff(tc.wantFields, fields(got.err)); diff != "" {
				t.Errorf("fields (-want +got):\n%s\n%v", diff, got.err)
			}
			if got.err != nil && !strings.Contains(got.err.Error(), tc.wantMessage) {
				t.Errorf("message %q does not contain %q", got.err, tc.wantMessage)
			}
		})
	}
	got := e.send(t, http.MethodPost, "v1alpha1", ns, "", probeMarker(probe, "{httpGet: {path: /, port: 80}}"), map[string]string{"dryRun": "All"})
	if got.err != nil {
		t.Fatal(got.err)
	}
	probes, _, _ := unstructured.NestedSlice(got.body.Object, "spec", "probes")
	stored, _ := probes[0].(map[string]any)["probe"].(map[string]any)
	want := map[string]any{
		"httpGet": map[string]any{"path": "/", "port": int64(80), "scheme": "HTTP"}, "periodSeconds": int64(10), "timeoutSeconds": int64(1),
		"successThreshold": int64(1), "failureThreshold": int64(3),
	}
	if diff := cmp.Diff(want, stored); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func testUpdateMarker(t *testing.T, e *env) {
	ns := e.namespace(t)
	if got := e.send(t, http.MethodPost, "v1alpha1", ns, "", probeMarker(), nil); got.err != nil {
		t.Fatal(got.err)
	}
	for patch, refused := range map[string]bool{
		`{"spec": {"selector": {"matchLabels": {"app": "other"}}}}`: true,
		`{"spec": {"probes": []}}`:                                  true,
		`{"metadata": {"finalizers": ["example.io/hold"]}}`:         false,
		`{"metadata": {"finalizers": null}}`:                        false,
	} {
		got := e.send(t, http.MethodPatch, "v1alpha1", ns, "game", patch, map[string]string{"dryRun": "All"})
		if refused != (got.err != nil) {
			t.Errorf("%s: %v", patch, got.err)
		}
	}
}

// testStoredMarkers stores OpenKruise's objects, with the defaults they lack.
func testStoredMarkers(t *testing.T, e *env) {
	text, err := os.ReadFile("../../testdata/openkruise-1.9/podprobemarker-done/state.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Items []map[string]any `json:"items"`
	}
	if err := yaml.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, item := range list.Items {
		object := &unstructured.Unstructured{Object: item}
		if object.GetKind() != "PodProbeMarker" {
			continue
		}
		found++
		ns := e.namespace(t)
		object.SetNamespace(ns)
		object.SetUID("")
		object.SetResourceVersion("")
		object.SetFinalizers(nil)
		want := normal(t, object)["status"]
		status := object.DeepCopy()
		if err := e.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		status.SetResourceVersion(object.GetResourceVersion())
		if err := e.client.Status().Update(t.Context(), status); err != nil {
			t.Fatal(err)
		}
		got := normal(t, e.get(t, "v1alpha1", ns, object.GetName()))
		if diff := cmp.Diff(want, got["status"]); diff != "" {
			t.Errorf("status (-stored by OpenKruise +stored here):\n%s", diff)
		}
	}
	if found == 0 {
		t.Error("the fixture has no PodProbeMarker")
	}
}
