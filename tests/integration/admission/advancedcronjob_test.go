// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admission_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// Templates of AdvancedCronJobs.
const (
	jobTemplate = `
    jobTemplate:
      metadata: {labels: {app: report}}
      spec:
        template:
          spec:
            restartPolicy: Never
            containers: [{name: main, image: "example/web:v1"}]
`
	broadcastJobTemplate = `
    broadcastJobTemplate:
      metadata: {labels: {app: report}}
      spec:
        parallelism: 10%
        template:
          spec:
            restartPolicy: OnFailure
            containers: [{name: main, image: "example/web:v1"}]
`
	imageListPullJobTemplate = `
    imageListPullJobTemplate:
      spec:
        images: ["example/web:v1", "example/api:v1"]
        selector: {matchLabels: {a: b}}
`
)

// cronJob is a good AdvancedCronJob of a version; edits replace text in it, old and new in turns.
func cronJob(version, name, template string, edits ...string) string {
	text := strings.NewReplacer("VERSION", version, "NAME", name).Replace(`
apiVersion: apps.kruise.io/VERSION
kind: AdvancedCronJob
metadata:
  name: NAME
spec:
  schedule: "0 3 * * *"
  template:` + template)
	return environment.Edited(text, edits...)
}

func testAdvancedCronJob(t *testing.T, e *env) {
	t.Run("create", func(t *testing.T) { testCronCreate(t, e) })
	t.Run("defaults", func(t *testing.T) { testCronDefaults(t, e) })
	t.Run("update", func(t *testing.T) { testCronUpdate(t, e) })
	t.Run("v1alpha1 keeps what it does not know", func(t *testing.T) { testCronKept(t, e) })
	t.Run("printing", func(t *testing.T) { testCronPrinting(t, e) })
}

func testCronCreate(t *testing.T, e *env) {
	ns := e.namespace(t)
	const schedule, end = `schedule: "0 3 * * *"`, `containers: [{name: main, image: "example/web:v1"}]`
	under := func(lines string) []string { return []string{schedule, schedule + "\n  " + lines} }
	const images = `images: ["example/web:v1", "example/api:v1"]`
	const nodes = `selector: {matchLabels: {a: b}}`
	const inList = "spec.template.imageListPullJobTemplate.spec"
	cases := map[string]struct {
		template     string
		edits        []string
		wantFields   []string
		wantMessage  string
		wantWarnings []string
	}{
		"a Job":                  {},
		"a BroadcastJob":         {template: broadcastJobTemplate},
		"a list of images":       {template: imageListPullJobTemplate},
		"everything":             {edits: under("timeZone: Europe/Berlin\n  startingDeadlineSeconds: 60\n  concurrencyPolicy: Forbid\n  paused: true\n  successfulJobsHistoryLimit: 0\n  failedJobsHistoryLimit: 0")},
		"a zone in the schedule": {edits: []string{schedule, `schedule: "CRON_TZ=Asia/Tokyo 0 3 * * *"`}},
		"a descriptor":           {edits: []string{schedule, `schedule: "@every 5m"`}},

		"a name of 53 characters": {edits: []string{"name: web", "name: " + strings.Repeat("n", 53)}, wantFields: []string{"metadata.name"}, wantMessage: "must have at most 52 characters"},
		"a name with a dot":       {edits: []string{"name: web", "name: a.b"}, wantFields: []string{"metadata.name"}},
		"no schedule":             {edits: []string{schedule, `schedule: ""`}, wantFields: []string{"spec.schedule"}, wantMessage: "is empty"},
		"six fields":              {edits: []string{schedule, `schedule: "0 0 3 * * *"`}, wantFields: []string{"spec.schedule"}, wantMessage: "expected exactly 5 fields, found 6"},
		"what crashes a parser":   {edits: []string{schedule, `schedule: "TZ=0"`}, wantFields: []string{"spec.schedule"}},
		"two time zones":          {edits: []string{schedule, "schedule: \"TZ=Asia/Tokyo 0 3 * * *\"\n  timeZone: Asia/Tokyo"}, wantFields: []string{"spec.schedule"}, wantMessage: "use one of them"},
		"an empty time zone":      {edits: under(`timeZone: ""`), wantFields: []string{"spec.timeZone"}},
		"a local time zone":       {edits: under(`timeZone: Local`), wantFields: []string{"spec.timeZone"}},
		"an unknown time zone":    {edits: under(`timeZone: Mars/Olympus`), wantFields: []string{"spec.timeZone"}, wantMessage: "want an IANA name"},
		"a negative deadline":     {edits: under(`startingDeadlineSeconds: -1`), wantFields: []string{"spec.startingDeadlineSeconds"}},
		"a negative history":      {edits: under(`successfulJobsHistoryLimit: -1`), wantFields: []string{"spec.successfulJobsHistoryLimit"}},
		"a negative other one":    {edits: under(`failedJobsHistoryLimit: -1`), wantFields: []string{"spec.failedJobsHistoryLimit"}},
		"an unknown policy":       {edits: under(`concurrencyPolicy: Sometimes`), wantFields: []string{"spec.concurrencyPolicy"}, wantMessage: `"Allow", "Forbid", "Replace"`},
		"a short deadline": {edits: under(`startingDeadlineSeconds: 5`), wantWarnings: []string{
			"spec.startingDeadlineSeconds: with less than 10 seconds, runs can be left out while the operator is busy",
		}},
		"a day that never comes": {edits: []string{schedule, `schedule: "0 0 30 2 *"`}, wantWarnings: []string{
			`spec.schedule: "0 0 30 2 *" names a day that never comes; no run will be started`,
		}},

		"no template":   {template: " {}", wantFields: []string{"spec.template"}, wantMessage: "it has none"},
		"two templates": {template: jobTemplate + broadcastJobTemplate, wantFields: []string{"spec.template"}, wantMessage: "it has jobTemplate and broadcastJobTemplate"},
		"a Job that restarts for ever": {
			edits: []string{"restartPolicy: Never", "restartPolicy: Always"}, wantFields: []string{"spec.template.jobTemplate.spec.template.spec.restartPolicy"},
		},
		"a Job without an image": {
			edits: []string{end, `containers: [{name: main}]`}, wantFields: []string{"spec.template.jobTemplate.spec.template.spec.containers[0].image"},
		},
		"a Job with a bad label": {
			edits: []string{"labels: {app: report}", `labels: {app: "no spaces"}`}, wantFields: []string{"spec.template.jobTemplate.metadata.labels"},
		},
		"a BroadcastJob that never completes": {
			template: broadcastJobTemplate, edits: []string{"parallelism: 10%", "completionPolicy: {type: Never}"},
			wantFields: []string{"spec.template.broadcastJobTemplate.spec.completionPolicy.type"}, wantMessage: "stays active for ever",
		},
		"a BroadcastJob without a name for its container": {
			template: broadcastJobTemplate, edits: []string{end, `containers: [{image: "example/web:v1"}]`},
			wantFields: []string{"spec.template.broadcastJobTemplate.spec.template.spec.containers[0].name"},
		},
		"a BroadcastJob with a bad parallelism": {
			template: broadcastJobTemplate, edits: []string{"parallelism: 10%", "parallelism: many"}, wantFields: []string{"spec.template.broadcastJobTemplate.spec.parallelism"},
		},
		"images with Allow":        {template: imageListPullJobTemplate, edits: under("concurrencyPolicy: Allow"), wantFields: []string{"spec.concurrencyPolicy"}, wantMessage: "must be Forbid or Replace"},
		"no image":                 {template: imageListPullJobTemplate, edits: []string{images, "images: []"}, wantFields: []string{inList + ".images"}},
		"an image twice":           {template: imageListPullJobTemplate, edits: []string{images, "images: [a, a]"}, wantFields: []string{inList + ".images[1]"}},
		"what is no image":         {template: imageListPullJobTemplate, edits: []string{images, `images: ["a b"]`}, wantFields: []string{inList + ".images[0]"}},
		"256 images":               {template: imageListPullJobTemplate, edits: []string{images, "images: [" + strings.Repeat("a,", 255) + "b]"}, wantFields: []string{inList + ".images"}},
		"images that never end":    {template: imageListPullJobTemplate, edits: []string{nodes, "completionPolicy: {type: Never}"}, wantFields: []string{inList + ".completionPolicy.type"}},
		"images with a long limit": {template: imageListPullJobTemplate, edits: []string{nodes, "completionPolicy: {activeDeadlineSeconds: 86401}"}, wantFields: []string{inList + ".completionPolicy.activeDeadlineSeconds"}},
		"images with a TTL":        {template: imageListPullJobTemplate, edits: []string{nodes, "completionPolicy: {ttlSecondsAfterFinished: 1}"}, wantFields: []string{inList + ".completionPolicy.ttlSecondsAfterFinished"}},
		"images by node and pod":   {template: imageListPullJobTemplate, edits: []string{nodes, nodes + "\n        podSelector: {matchLabels: {a: b}}"}, wantFields: []string{inList}},
		"images by a bad selector": {template: imageListPullJobTemplate, edits: []string{nodes, "podSelector: {matchExpressions: [{key: a, operator: Near}]}"}, wantFields: []string{inList + ".podSelector.matchExpressions[0].operator"}},
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for name, tc := range cases {
			t.Run(version+"/"+name, func(t *testing.T) {
				template := tc.template
				if template == "" {
					template = jobTemplate
				}
				got := e.send(t, http.MethodPost, version, ns, "", cronJob(version, "web", template, tc.edits...), map[string]string{"dryRun": "All"})
				got.check(t, tc.wantFields, tc.wantMessage)
				got.checkWarnings(t, tc.wantWarnings)
			})
		}
	}
}

func testCronDefaults(t *testing.T, e *env) {
	ns := e.namespace(t)
	for template, want := range map[string]map[string]any{
		jobTemplate:          {"concurrencyPolicy": "Allow"},
		broadcastJobTemplate: {"concurrencyPolicy": "Allow"},
		imageListPullJobTemplate: {
			"concurrencyPolicy": "Replace",
			"completionPolicy":  map[string]any{"type": "Always"}, "imagePullPolicy": "IfNotPresent",
			"pullPolicy": map[string]any{"timeoutSeconds": int64(600), "backoffLimit": int64(3)},
		},
	} {
		got := e.send(t, http.MethodPost, "v1beta1", ns, "", cronJob("v1beta1", "web", template), map[string]string{"dryRun": "All"})
		if got.err != nil {
			t.Fatal(got.err)
		}
		spec := got.body.Object["spec"].(map[string]any)
		is := map[string]any{"concurrencyPolicy": spec["concurrencyPolicy"]}
		list, _, _ := unstructured.NestedMap(spec, "template", "imageListPullJobTemplate", "spec")
		for key := range want {
			if key != "concurrencyPolicy" {
				is[key] = list[key]
			}
		}
		if diff := cmp.Diff(want, is); diff != "" {
			t.Errorf("defaults (-want +got):\n%s", diff)
		}
		if spec["paused"] != false || spec["successfulJobsHistoryLimit"] != int64(3) || spec["failedJobsHistoryLimit"] != int64(1) {
			t.Errorf("defaults: %v", spec)
		}
		for field, pods := range map[string]bool{"jobTemplate": true, "broadcastJobTemplate": true} {
			if labels, found, _ := unstructured.NestedStringMap(spec, "template", field, "metadata", "labels"); found && pods && labels["app"] != "report" {
				t.Errorf("labels of %s: %v", field, labels)
			}
		}
	}
}

func testCronUpdate(t *testing.T, e *env) {
	ns := e.namespace(t)
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", cronJob("v1beta1", "web", jobTemplate), nil); got.err != nil {
		t.Fatal(got.err)
	}
	cases := map[string]struct {
		patch      string
		wantFields []string
	}{
		"the schedule":     {patch: `{spec: {schedule: "@hourly"}}`},
		"a bad schedule":   {patch: `{spec: {schedule: "@never"}}`, wantFields: []string{"spec.schedule"}},
		"the time zone":    {patch: `{spec: {timeZone: Etc/UTC}}`},
		"the deadline":     {patch: `{spec: {startingDeadlineSeconds: 100}}`},
		"the policy":       {patch: `{spec: {concurrencyPolicy: Forbid}}`},
		"a pause":          {patch: `{spec: {paused: true}}`},
		"both limits":      {patch: `{spec: {successfulJobsHistoryLimit: 7, failedJobsHistoryLimit: 0}}`},
		"the template":     {patch: `{spec: {template: {jobTemplate: {spec: {template: {spec: {containers: [{name: main, image: "example/web:v2"}]}}}}}}}`},
		"a bad template":   {patch: `{spec: {template: {jobTemplate: {spec: {template: {spec: {containers: [{name: main}]}}}}}}}`, wantFields: []string{"spec.template.jobTemplate.spec.template.spec.containers[0].image"}},
		"another kind":     {patch: `{spec: {template: {jobTemplate: null, broadcastJobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: a}]}}}}}}}`, wantFields: []string{"spec.template"}},
		"no kind any more": {patch: `{spec: {template: {jobTemplate: null}}}`, wantFields: []string{"spec.template"}},
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for name, tc := range cases {
			t.Run(version+"/"+name, func(t *testing.T) {
				got := e.send(t, http.MethodPatch, version, ns, "web", tc.patch, map[string]string{"dryRun": "All"})
				if diff := cmp.Diff(tc.wantFields, fields(got.err)); diff != "" {
					t.Errorf("fields (-want +got):\n%s\n%v", diff, got.err)
				}
			})
		}
	}
	e.remove(t, ns, "web")
}

// testCronKept updates an object as a client of OpenKruise's v1alpha1, without
// imageListPullJobTemplate. It knows timeZone, and removes it.
func testCronKept(t *testing.T, e *env) {
	ns := e.namespace(t)
	body := cronJob("v1beta1", "web", imageListPullJobTemplate, `schedule: "0 3 * * *"`, "schedule: \"0 3 * * *\"\n  timeZone: Asia/Tokyo")
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", body, nil); got.err != nil {
		t.Fatal(got.err)
	}
	before := e.get(t, "v1beta1", ns, "web").Object["spec"].(map[string]any)
	older := e.get(t, "v1alpha1", ns, "web")
	for _, field := range [][]string{{"spec", "template", "imageListPullJobTemplate"}, {"spec", "timeZone"}} {
		unstructured.RemoveNestedField(older.Object, field...)
	}
	if err := unstructured.SetNestedField(older.Object, true, "spec", "paused"); err != nil {
		t.Fatal(err)
	}
	if got := e.send(t, http.MethodPut, "v1alpha1", ns, "web", text(t, older), nil); got.err != nil {
		t.Fatal(got.err)
	}
	after := e.get(t, "v1beta1", ns, "web").Object["spec"].(map[string]any)
	unstructured.RemoveNestedField(after, "template", "imageListPullJobTemplate", "metadata") // an empty one is none
	before["paused"] = true
	delete(before, "timeZone")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the spec after the update (-before +after):\n%s", diff)
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		testReplaced(t, e, version, ns, "web")
	}
	e.remove(t, ns, "web")
}

func testCronPrinting(t *testing.T, e *env) {
	ns := e.namespace(t)
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", cronJob("v1beta1", "web", jobTemplate), nil); got.err != nil {
		t.Fatal(got.err)
	}
	e.checkColumns(t, ns, "NAME SCHEDULE TYPE LASTSCHEDULETIME AGE STALLED", "advancedcronjobs.v1beta1.apps.kruise.io", "advancedcronjobs.v1alpha1.apps.kruise.io", "acj")
	e.remove(t, ns, "web")
}
