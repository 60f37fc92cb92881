// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admission_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// broadcast is a good BroadcastJob of a version; edits replace text in it, old and new in turns.
func broadcast(version, name string, edits ...string) string {
	text := strings.NewReplacer("VERSION", version, "NAME", name).Replace(`
apiVersion: apps.kruise.io/VERSION
kind: BroadcastJob
metadata:
  name: NAME
spec:
  parallelism: 3
  template:
    metadata: {labels: {app: scan}}
    spec:
      restartPolicy: OnFailure
      containers: [{name: main, image: "example/web:v1"}]
`)
	return environment.Edited(text, edits...)
}

func testBroadcastJob(t *testing.T, e *env) {
	t.Run("create", func(t *testing.T) { testBroadcastCreate(t, e) })
	t.Run("defaults", func(t *testing.T) { testBroadcastDefaults(t, e) })
	t.Run("update", func(t *testing.T) { testBroadcastUpdate(t, e) })
	t.Run("printing", func(t *testing.T) { testBroadcastPrinting(t, e) })
}

func testBroadcastCreate(t *testing.T, e *env) {
	ns := e.namespace(t)
	const number = "parallelism: 3"
	with := func(lines string) []string { return []string{number, number + "\n  " + lines} }
	const containers = `containers: [{name: main, image: "example/web:v1"}]`
	cases := map[string]struct {
		edits       []string
		wantFields  []string
		wantMessage string
	}{
		"a good job":          {},
		"parallelism of none": {edits: []string{number, "parallelism: 0"}},
		"a percentage":        {edits: []string{number, "parallelism: 30%"}},
		"everything": {edits: with("paused: true\n  completionPolicy: {type: Always, activeDeadlineSeconds: 0, ttlSecondsAfterFinished: 0}\n" +
			"  failurePolicy: {type: Pause, restartLimit: 3}")},
		"one that never completes": {edits: with("completionPolicy: {type: Never}")},
		"a name of 63 characters":  {edits: []string{"name: web", "name: " + strings.Repeat("n", 63)}},

		"a name of 64 characters":       {edits: []string{"name: web", "name: " + strings.Repeat("n", 64)}, wantFields: []string{"metadata.name"}},
		"a name with a dot":             {edits: []string{"name: web", "name: a.b"}, wantFields: []string{"metadata.name"}},
		"negative parallelism":          {edits: []string{number, "parallelism: -1"}, wantFields: []string{"spec.parallelism"}},
		"a word":                        {edits: []string{number, "parallelism: many"}, wantFields: []string{"spec.parallelism"}, wantMessage: "must be a whole number of at least 0, or a percentage"},
		"a negative percentage":         {edits: []string{number, "parallelism: -3%"}, wantFields: []string{"spec.parallelism"}},
		"a deadline of what never ends": {edits: with("completionPolicy: {type: Never, activeDeadlineSeconds: 3}"), wantFields: []string{"spec.completionPolicy.activeDeadlineSeconds"}, wantMessage: "must be absent when completionPolicy.type is Never"},
		"a TTL of what never ends":      {edits: with("completionPolicy: {type: Never, ttlSecondsAfterFinished: 3}"), wantFields: []string{"spec.completionPolicy.ttlSecondsAfterFinished"}},
		"a negative deadline":           {edits: with("completionPolicy: {activeDeadlineSeconds: -1}"), wantFields: []string{"spec.completionPolicy.activeDeadlineSeconds"}},
		"a negative TTL":                {edits: with("completionPolicy: {ttlSecondsAfterFinished: -1}"), wantFields: []string{"spec.completionPolicy.ttlSecondsAfterFinished"}},
		"an unknown completion":         {edits: with("completionPolicy: {type: Sometimes}"), wantFields: []string{"spec.completionPolicy.type"}, wantMessage: `"Always", "Never"`},
		"an unknown failure policy":     {edits: with("failurePolicy: {type: Ignore}"), wantFields: []string{"spec.failurePolicy.type"}, wantMessage: `"FailFast", "Continue", "Pause"`},
		"a negative restart limit":      {edits: with("failurePolicy: {restartLimit: -1}"), wantFields: []string{"spec.failurePolicy.restartLimit"}},
		"pods that restart for ever":    {edits: []string{"restartPolicy: OnFailure", "restartPolicy: Always"}, wantFields: []string{"spec.template.spec.restartPolicy"}},
		"no restart policy":             {edits: []string{"restartPolicy: OnFailure\n", "hostPID: false\n"}, wantFields: []string{"spec.template.spec.restartPolicy"}},
		"the label of the name":         {edits: []string{"labels: {app: scan}", "labels: {broadcastjob-name: scan}"}, wantFields: []string{"spec.template.metadata.labels"}},
		"the label of the UID":          {edits: []string{"labels: {app: scan}", "labels: {broadcastjob-controller-uid: scan}"}, wantFields: []string{"spec.template.metadata.labels"}},
		"a template without an image":   {edits: []string{containers, "containers: [{name: main}]"}, wantFields: []string{"spec.template.spec.containers[0].image"}},
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for name, tc := range cases {
			t.Run(version+"/"+name, func(t *testing.T) {
				got := e.send(t, http.MethodPost, version, ns, "", broadcast(version, "web", tc.edits...), map[string]string{"dryRun": "All"})
				got.check(t, tc.wantFields, tc.wantMessage)
				if len(got.warnings) > 0 {
					t.Errorf("warnings: %v", got.warnings)
				}
			})
		}
	}
}

func testBroadcastDefaults(t *testing.T, e *env) {
	ns := e.namespace(t)
	got := e.send(t, http.MethodPost, "v1alpha1", ns, "", broadcast("v1alpha1", "web", "  parallelism: 3\n", ""), map[string]string{"dryRun": "All"})
	if got.err != nil {
		t.Fatal(got.err)
	}
	spec := got.body.Object["spec"].(map[string]any)
	delete(spec, "template")
	want := map[string]any{
		"parallelism": int64(2147483647), "completionPolicy": map[string]any{"type": "Always"}, "failurePolicy": map[string]any{"type": "FailFast"},
	}
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func testBroadcastUpdate(t *testing.T, e *env) {
	ns := e.namespace(t)
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", broadcast("v1beta1", "web"), nil); got.err != nil {
		t.Fatal(got.err)
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		e.checkPatches(t, version, ns, "web", map[string][]string{
			`{spec: {parallelism: 50%}}`:                nil,
			`{spec: {paused: true}}`:                    nil,
			`{spec: {failurePolicy: {type: Continue}}}`: nil,
			`{spec: {template: {spec: {containers: [{name: main, image: "example/web:v2"}]}}}}`: nil,
			`{spec: {template: {spec: {restartPolicy: Always}}}}`:                               {"spec.template.spec.restartPolicy"},
			`{spec: {parallelism: -1}}`:                                                         {"spec.parallelism"},
		})
		testReplaced(t, e, version, ns, "web")
	}
	e.remove(t, ns, "web")
}

func testBroadcastPrinting(t *testing.T, e *env) {
	ns := e.namespace(t)
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", broadcast("v1beta1", "web"), nil); got.err != nil {
		t.Fatal(got.err)
	}
	e.checkColumns(t, ns, "NAME DESIRED ACTIVE SUCCEEDED FAILED AGE STALLED", "broadcastjobs.v1beta1.apps.kruise.io", "broadcastjobs.v1alpha1.apps.kruise.io", "bcj")
	e.remove(t, ns, "web")
}
