// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admission_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// ephemeral is a good EphemeralJob of a version; edits replace text in it, old and new in turns.
func ephemeral(version, name string, edits ...string) string {
	text := strings.NewReplacer("VERSION", version, "NAME", name).Replace(`
apiVersion: apps.kruise.io/VERSION
kind: EphemeralJob
metadata:
  name: NAME
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    ephemeralContainers: [{name: dbg, image: "busybox:1.37"}]
`)
	return environment.Edited(text, edits...)
}

func testEphemeralJob(t *testing.T, e *env) {
	t.Run("create", func(t *testing.T) { testEphemeralCreate(t, e) })
	t.Run("update", func(t *testing.T) { testEphemeralUpdate(t, e) })
	t.Run("printing", func(t *testing.T) { testEphemeralPrinting(t, e) })
}

func testEphemeralCreate(t *testing.T, e *env) {
	ns := e.namespace(t)
	const selector, container = "{matchLabels: {app: web}}", `{name: dbg, image: "busybox:1.37"}`
	with := func(fields string) []string {
		return []string{container, strings.Replace(container, "{", "{"+fields+", ", 1)}
	}
	const at = "spec.template.ephemeralContainers"
	cases := map[string]struct {
		edits       []string
		wantFields  []string
		wantMessage string
	}{
		"a good job":              {},
		"a target":                {edits: with("targetContainerName: web")},
		"no selector":             {edits: []string{"  selector: " + selector + "\n", ""}, wantFields: []string{"spec.selector"}},
		"an empty selector":       {edits: []string{selector, "{}"}, wantFields: []string{"spec.selector"}, wantMessage: "every pod of the namespace"},
		"negative replicas":       {edits: []string{"replicas: 3", "replicas: -1"}, wantFields: []string{"spec.replicas"}, wantMessage: "must be 0 or more"},
		"no containers":           {edits: []string{container, ""}, wantFields: []string{at}, wantMessage: "at least one container"},
		"no image":                {edits: []string{container, "{name: dbg}"}, wantFields: []string{at + "[0].image"}},
		"a name twice":            {edits: []string{container, container + ", " + container}, wantFields: []string{at + "[1].name"}},
		"a probe":                 {edits: with("livenessProbe: {exec: {command: [a]}}"), wantFields: []string{at + "[0].livenessProbe"}, wantMessage: "cannot be set on an ephemeral container"},
		"an unknown pull policy":  {edits: with("imagePullPolicy: Sometimes"), wantFields: []string{at + "[0].imagePullPolicy"}, wantMessage: `"Always", "IfNotPresent", "Never"`},
		"a value of a wrong type": {edits: with("tty: maybe"), wantFields: []string{at + "[0].tty"}},
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for name, tc := range cases {
			t.Run(version+"/"+name, func(t *testing.T) {
				got := e.send(t, http.MethodPost, version, ns, "", ephemeral(version, "web", tc.edits...), map[string]string{"dryRun": "All"})
				got.check(t, tc.wantFields, tc.wantMessage)
				if got.err == nil {
					spec := got.body.Object["spec"].(map[string]any)
					if spec["parallelism"] != int64(1) {
						t.Errorf("defaults are missing: %v", spec)
					}
				}
			})
		}
	}
}

func testEphemeralUpdate(t *testing.T, e *env) {
	ns := e.namespace(t)
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", ephemeral("v1beta1", "web"), nil); got.err != nil {
		t.Fatal(got.err)
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		e.checkPatches(t, version, ns, "web", map[string][]string{
			`{spec: {parallelism: 5}}`:                     nil,
			`{spec: {paused: true}}`:                       nil,
			`{spec: {parallelism: -1}}`:                    {"spec.parallelism"},
			`{spec: {selector: {matchLabels: {app: db}}}}`: {"spec.selector"},
			`{spec: {template: {ephemeralContainers: [{name: dbg, image: "busybox:1.38"}]}}}`: {"spec.template"},
			`{metadata: {finalizers: ["apps.kruise.io/ephemeralcontainers-cleanup"]}}`:        nil,
		})
		testReplaced(t, e, version, ns, "web")
	}
	e.remove(t, ns, "web")
}

func testEphemeralPrinting(t *testing.T, e *env) {
	ns := e.namespace(t)
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", ephemeral("v1beta1", "web"), nil); got.err != nil {
		t.Fatal(got.err)
	}
	e.checkColumns(t, ns, "NAME STATUS MATCH SUCCEED FAILED RUNNING WAITING AGE STALLED", "ephemeraljobs.v1beta1.apps.kruise.io", "ephemeraljobs.v1alpha1.apps.kruise.io", "ejob")
	e.remove(t, ns, "web")
}
