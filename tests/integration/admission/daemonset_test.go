// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admission_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// daemons is a good DaemonSet of a version; edits replace text in it, old and new in turns.
func daemons(version, name string, edits ...string) string {
	text := strings.NewReplacer("VERSION", version, "NAME", name).Replace(`
apiVersion: apps.kruise.io/VERSION
kind: DaemonSet
metadata:
  name: NAME
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: "example/web:v1"}]
  updateStrategy: {rollingUpdate: {maxUnavailable: 1}}
`)
	return environment.Edited(text, edits...)
}

func testDaemonSet(t *testing.T, e *env) {
	t.Run("create", func(t *testing.T) { testDaemonsCreate(t, e) })
	t.Run("defaults", func(t *testing.T) { testDaemonsDefaults(t, e) })
	t.Run("update", func(t *testing.T) { testDaemonsUpdate(t, e) })
	t.Run("both versions", func(t *testing.T) { testDaemonsInBothVersions(t, e) })
	t.Run("printing", func(t *testing.T) { testDaemonsPrinting(t, e) })
}

func testDaemonsCreate(t *testing.T, e *env) {
	ns := e.namespace(t)
	const rolling = "{rollingUpdate: {maxUnavailable: 1}}"
	update := func(with string) []string { return []string{rolling, with} }
	first := func(line string) []string { return []string{"  selector:", "  " + line + "\n  selector:"} }
	const path = "spec.updateStrategy.rollingUpdate."
	cases := map[string]struct {
		edits       []string
		wantFields  []string
		wantMessage string
	}{
		"a good set": {},
		"everything": {edits: append(update("{type: RollingUpdate, rollingUpdate: {rollingUpdateType: InPlaceIfPossible, maxUnavailable: 30%, partition: 100%, paused: true, selector: {matchLabels: {lane: x}}}}"),
			first("burstReplicas: 10%\n  minReadySeconds: 3\n  revisionHistoryLimit: 0\n  lifecycle: {preDelete: {labelsHandler: {drain: wait}}}")...)},
		"only a surge":          {edits: update("{rollingUpdate: {maxSurge: 30%}}")},
		"on delete":             {edits: update("{type: OnDelete}")},
		"an empty preNormal":    {edits: first("lifecycle: {preNormal: {labelsHandler: {a: b}}}")},
		"an explicit Always":    {edits: []string{"      containers:", "      restartPolicy: Always\n      containers:"}},
		"a bad name":            {edits: []string{"name: web\n", "name: Web_1\n"}, wantFields: []string{"metadata.name"}},
		"no selector":           {edits: []string{"{matchLabels: {app: web}}", "{}"}, wantFields: []string{"spec.selector"}},
		"a malformed selector":  {edits: []string{"{matchLabels: {app: web}}", "{matchExpressions: [{key: app, operator: Near}]}"}, wantFields: []string{"spec.selector.matchExpressions[0].operator"}},
		"labels of others":      {edits: []string{"labels: {app: web}", "labels: {app: other}"}, wantFields: []string{"spec.template.metadata.labels"}},
		"a faulty template":     {edits: []string{`image: "example/web:v1"`, `image: ""`}, wantFields: []string{"spec.template.spec.containers[0].image"}},
		"pods that end":         {edits: []string{"      containers:", "      restartPolicy: Never\n      containers:"}, wantFields: []string{"spec.template.spec.restartPolicy"}, wantMessage: `"Always"`},
		"pods for a time":       {edits: []string{"      containers:", "      activeDeadlineSeconds: 5\n      containers:"}, wantFields: []string{"spec.template.spec.activeDeadlineSeconds"}},
		"negative minReady":     {edits: first("minReadySeconds: -1"), wantFields: []string{"spec.minReadySeconds"}},
		"a negative history":    {edits: first("revisionHistoryLimit: -1"), wantFields: []string{"spec.revisionHistoryLimit"}},
		"a negative burst":      {edits: first("burstReplicas: -1"), wantFields: []string{"spec.burstReplicas"}},
		"a burst of none":       {edits: first("burstReplicas: 0"), wantFields: []string{"spec.burstReplicas"}, wantMessage: "must be more than 0"},
		"a word for a burst":    {edits: first("burstReplicas: many"), wantFields: []string{"spec.burstReplicas"}},
		"an unknown type":       {edits: update("{type: Sometimes}"), wantFields: []string{"spec.updateStrategy.type"}, wantMessage: `"RollingUpdate", "OnDelete"`},
		"an unknown way":        {edits: update("{rollingUpdate: {rollingUpdateType: InPlaceOnly}}"), wantFields: []string{path + "rollingUpdateType"}},
		"negative unavailable":  {edits: update("{rollingUpdate: {maxUnavailable: -1}}"), wantFields: []string{path + "maxUnavailable"}},
		"too much unavailable":  {edits: update("{rollingUpdate: {maxUnavailable: 101%}}"), wantFields: []string{path + "maxUnavailable"}, wantMessage: "of at most 100%"},
		"a negative surge":      {edits: update("{rollingUpdate: {maxSurge: -1}}"), wantFields: []string{path + "maxSurge"}},
		"a word for a surge":    {edits: update("{rollingUpdate: {maxSurge: some}}"), wantFields: []string{path + "maxSurge"}},
		"both limits":           {edits: update("{rollingUpdate: {maxUnavailable: 1, maxSurge: 1}}"), wantFields: []string{path + "maxSurge"}},
		"neither limit":         {edits: update("{rollingUpdate: {maxUnavailable: 0, maxSurge: 0}}"), wantFields: []string{path + "maxUnavailable"}},
		"a surge in place":      {edits: update("{rollingUpdate: {rollingUpdateType: InPlaceIfPossible, maxSurge: 1, maxUnavailable: 0}}"), wantFields: []string{path + "maxSurge"}},
		"a negative partition":  {edits: update("{rollingUpdate: {partition: -1}}"), wantFields: []string{path + "partition"}},
		"too large a partition": {edits: update("{rollingUpdate: {partition: 120%}}"), wantFields: []string{path + "partition"}},
		"a word for one":        {edits: update("{rollingUpdate: {partition: half}}"), wantFields: []string{path + "partition"}},
		"a faulty node selector": {edits: update("{rollingUpdate: {selector: {matchExpressions: [{key: lane, operator: In}]}}}"),
			wantFields: []string{path + "selector.matchExpressions[0].values"}},
		"the hook before an update": {edits: first("lifecycle: {inPlaceUpdate: {labelsHandler: {a: b}}}"), wantFields: []string{"spec.lifecycle.inPlaceUpdate"}},
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for name, tc := range cases {
			t.Run(version+"/"+name, func(t *testing.T) {
				got := e.send(t, http.MethodPost, version, ns, "", daemons(version, "web", tc.edits...), map[string]string{"dryRun": "All"})
				got.check(t, tc.wantFields, tc.wantMessage)
			})
		}
	}
	t.Run("v1alpha1/surging with maxUnavailable", func(t *testing.T) {
		got := e.send(t, http.MethodPost, "v1alpha1", ns, "", daemons("v1alpha1", "web", rolling, "{rollingUpdate: {rollingUpdateType: Surging, maxUnavailable: 1}}"), map[string]string{"dryRun": "All"})
		got.check(t, []string{path + "maxSurge"}, "the type Surging means 1")
	})
}

func testDaemonsDefaults(t *testing.T, e *env) {
	ns := e.namespace(t)
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		got := e.send(t, http.MethodPost, version, ns, "", daemons(version, "web", "  updateStrategy: {rollingUpdate: {maxUnavailable: 1}}\n", ""), map[string]string{"dryRun": "All"})
		if got.err != nil {
			t.Fatal(got.err)
		}
		spec := got.body.Object["spec"].(map[string]any)
		// The template stays as its user wrote it.
		want := map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": "example/web:v1"}}},
			},
			"burstReplicas": int64(250), "revisionHistoryLimit": int64(10),
			"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{
				"rollingUpdateType": "Standard", "maxUnavailable": int64(1), "maxSurge": int64(0),
			}},
		}
		if diff := cmp.Diff(want, spec); diff != "" {
			t.Errorf("defaults in %s (-want +got):\n%s", version, diff)
		}
	}
}

func testDaemonsUpdate(t *testing.T, e *env) {
	ns := e.namespace(t)
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", daemons("v1beta1", "web"), nil); got.err != nil {
		t.Fatal(got.err)
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for patch, want := range map[string][]string{
			`{spec: {template: {spec: {containers: [{name: main, image: "example/web:v2"}]}}}}`: nil,
			`{spec: {updateStrategy: {rollingUpdate: {partition: 3}}}}`:                         nil,
			`{spec: {burstReplicas: 3, minReadySeconds: 3, revisionHistoryLimit: 3}}`:           nil,
			`{spec: {lifecycle: {preDelete: {finalizersHandler: [x/y]}}}}`:                      nil,
			`{spec: {selector: {matchLabels: {tier: a}}}}`:                                      {"spec.selector"},
			`{spec: {updateStrategy: {rollingUpdate: {partition: -1}}}}`:                        {"spec.updateStrategy.rollingUpdate.partition"},
		} {
			got := e.send(t, http.MethodPatch, version, ns, "web", patch, map[string]string{"dryRun": "All"})
			have := fields(got.err)
			if len(have) > 1 { // of a selector the labels of the template are told as well
				have = have[:1]
			}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("%s in %s: fields (-want +got):\n%s\n%v", patch, version, diff, got.err)
			}
		}
		testReplaced(t, e, version, ns, "web")
	}
	e.remove(t, ns, "web")
}

// testDaemonsInBothVersions writes in one version and reads in the other the fields of
// different places.
func testDaemonsInBothVersions(t *testing.T, e *env) {
	ns := e.namespace(t)
	annotation := "  annotations: {" + v1alpha1.AnnotationProgressiveCreatePod + `: "true"}` + "\nspec:"
	older := daemons("v1alpha1", "older", "spec:", annotation, "{rollingUpdate: {maxUnavailable: 1}}", "{rollingUpdate: {rollingUpdateType: Surging}}")
	newer := daemons("v1beta1", "newer", "spec:", "spec:\n  scaleStrategy: {partitionedScaling: true}", "{rollingUpdate: {maxUnavailable: 1}}", "{rollingUpdate: {maxSurge: 1}}")
	for version, body := range map[string]string{"v1alpha1": older, "v1beta1": newer} {
		if got := e.send(t, http.MethodPost, version, ns, "", body, nil); got.err != nil {
			t.Fatal(got.err)
		}
	}
	for _, name := range []string{"older", "newer"} {
		status := `{"status":{"desiredNumberScheduled":0,"currentNumberScheduled":0,"numberMisscheduled":0,"numberReady":0,"numberUnavailable":0,"updatedNumberScheduled":0,"updateRevision":"abc"}}`
		if _, err := e.dynamic(t, "v1beta1", ns).Patch(t.Context(), name, "application/merge-patch+json", []byte(status), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		beta, alpha := e.get(t, "v1beta1", ns, name), e.get(t, "v1alpha1", ns, name)
		if is, _, _ := unstructured.NestedBool(beta.Object, "spec", "scaleStrategy", "partitionedScaling"); !is || beta.GetAnnotations()[v1alpha1.AnnotationProgressiveCreatePod] != "" {
			t.Errorf("%s in v1beta1: %v, %v", name, beta.Object["spec"], beta.GetAnnotations())
		}
		if _, is, _ := unstructured.NestedMap(alpha.Object, "spec", "scaleStrategy"); is || alpha.GetAnnotations()[v1alpha1.AnnotationProgressiveCreatePod] != "true" {
			t.Errorf("%s in v1alpha1: %v, %v", name, alpha.Object["spec"], alpha.GetAnnotations())
		}
		rolling, _, _ := unstructured.NestedMap(beta.Object, "spec", "updateStrategy", "rollingUpdate")
		want := map[string]any{"rollingUpdateType": "Standard", "maxSurge": int64(1), "maxUnavailable": int64(0)}
		if name == "newer" {
			delete(want, "maxUnavailable")
		}
		if diff := cmp.Diff(want, rolling); diff != "" {
			t.Errorf("%s in v1beta1 (-want +got):\n%s", name, diff)
		}
		hash, _, _ := unstructured.NestedString(alpha.Object, "status", "daemonSetHash")
		revision, _, _ := unstructured.NestedString(beta.Object, "status", "updateRevision")
		if hash != "abc" || revision != "abc" {
			t.Errorf("the hash of %s is %q in v1alpha1, %q in v1beta1", name, hash, revision)
		}
		// Turned off in one version, it is off in the other, whoever writes next.
		off := `{spec: {scaleStrategy: null}}`
		if got := e.send(t, http.MethodPatch, "v1beta1", ns, name, off, nil); got.err != nil {
			t.Fatal(got.err)
		}
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			testReplaced(t, e, version, ns, name)
		}
		if is := e.get(t, "v1alpha1", ns, name).GetAnnotations()[v1alpha1.AnnotationProgressiveCreatePod]; is == "true" {
			t.Errorf("%s: it is on again", name)
		}
		e.remove(t, ns, name)
	}
}

func testDaemonsPrinting(t *testing.T, e *env) {
	ns := e.namespace(t)
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", daemons("v1beta1", "web"), nil); got.err != nil {
		t.Fatal(got.err)
	}
	for _, resource := range []string{"daemonsets.v1beta1.apps.kruise.io", "daemonsets.v1alpha1.apps.kruise.io", "ads", "daemon"} {
		for mode, want := range map[string]string{
			"":     "NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE AGE STALLED",
			"wide": "NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE AGE CONTAINERS IMAGES STALLED",
		} {
			out, err := e.cluster.Kubectl(t.Context(), "get", resource, "--namespace="+ns, "-o", mode).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got := strings.Join(strings.Fields(strings.SplitN(string(out), "\n", 2)[0]), " "); got != want {
				t.Errorf("columns of %s -o %q: %s, want %s", resource, mode, got, want)
			}
		}
	}
	e.remove(t, ns, "web")
}
