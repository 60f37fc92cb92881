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
)

func testUpdate(t *testing.T, e *env) {
	ns := e.namespace(t)
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		name := "update-" + version
		if got := e.send(t, http.MethodPost, version, ns, "", manifest(version, name), nil); got.err != nil {
			t.Fatal(got.err)
		}
		cases := map[string]struct {
			patch        string
			wantFields   []string
			wantWarnings []string
		}{
			"the selector":              {patch: `{spec: {selector: {matchLabels: {tier: a}}, template: {metadata: {labels: {tier: a}}}}}`, wantFields: []string{"spec.selector"}},
			"the service":               {patch: `{spec: {serviceName: other}}`, wantFields: []string{"spec.serviceName"}},
			"the service taken away":    {patch: `{spec: {serviceName: null}}`, wantFields: []string{"spec.serviceName"}},
			"the pod management policy": {patch: `{spec: {podManagementPolicy: OrderedReady}}`, wantFields: []string{"spec.podManagementPolicy"}},
			"replicas":                  {patch: `{spec: {replicas: 7}}`},
			"replicas taken away":       {patch: `{spec: {replicas: null}}`},
			"a range that is too big":   {patch: `{spec: {reserveOrdinals: ["0-2000000000"]}}`, wantFields: []string{"spec.reserveOrdinals[0]"}},
			"only in place: an image":   {patch: `{spec: {updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly}}, template: {spec: {containers: [{name: main, image: "example/web:v2"}]}}}}`},
			"only in place: a policy":   {patch: `{spec: {updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly}}, template: {spec: {containers: [{name: main, image: "example/web:v2", imagePullPolicy: Never}]}}}}`, wantFields: []string{"spec.template.spec"}},
			"a template that the API server would refuse": {
				patch:        `{spec: {template: {spec: {containers: [{name: main}]}}}}`,
				wantWarnings: []string{"spec.template.spec.containers[0].image: Required value (pods cannot be created from this template)"},
			},
			"a template that cannot be read": {
				patch:      `{spec: {template: {spec: {containers: {main: "example/web:v2"}}}}}`,
				wantFields: []string{"spec.template.spec.containers"},
			},
		}
		for title, tc := range cases {
			t.Run(version+"/"+title, func(t *testing.T) {
				got := e.send(t, http.MethodPatch, version, ns, name, tc.patch, map[string]string{"dryRun": "All"})
				if diff := cmp.Diff(tc.wantFields, fields(got.err)); diff != "" {
					t.Errorf("fields (-want +got):\n%s\n%v", diff, got.err)
				}
				if diff := cmp.Diff(tc.wantWarnings, got.warnings); diff != "" {
					t.Errorf("warnings (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// testStored: a client's object is stored as written, with defaults beside it and none in
// the templates.
func testStored(t *testing.T, e *env) {
	ns := e.namespace(t)
	body := manifest("v1beta1", "web",
		"replicas: 3", "volumeClaimTemplates: [{metadata: {name: data, creationTimestamp: null}, spec: {accessModes: [ReadWriteOnce], madeUp: {a: null, half: 1.5}}}]",
		"image: example/web:v1", "image: example/web:v1\n        madeUp: {big: 9007199254740993, deep: [{x: z}]}",
		"podManagementPolicy: Parallel", "", "    rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}", "")
	got := e.send(t, http.MethodPost, "v1beta1", ns, "", body, nil)
	if got.err != nil {
		t.Fatal(got.err)
	}
	want := map[string]any{
		"replicas":             int64(1),
		"revisionHistoryLimit": int64(10),
		"serviceName":          "web",
		"podManagementPolicy":  "OrderedReady",
		"selector":             map[string]any{"matchLabels": map[string]any{"app": "web"}},
		"persistentVolumeClaimRetentionPolicy": map[string]any{
			"whenDeleted": "Retain", "whenScaled": "Retain",
		},
		"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{
			"partition": int64(0), "maxUnavailable": int64(1), "minReadySeconds": int64(0), "podUpdatePolicy": "ReCreate",
		}},
		"volumeClaimTemplates": []any{map[string]any{
			"metadata": map[string]any{"name": "data", "creationTimestamp": nil},
			"spec":     map[string]any{"accessModes": []any{"ReadWriteOnce"}, "madeUp": map[string]any{"a": nil, "half": 1.5}},
		}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
			"spec": map[string]any{
				"readinessGates": []any{map[string]any{"conditionType": "InPlaceUpdateReady"}},
				"containers": []any{map[string]any{
					"name": "main", "image": "example/web:v1",
					"madeUp": map[string]any{"big": int64(9007199254740993), "deep": []any{map[string]any{"x": "z"}}},
				}},
			},
		},
	}
	if diff := cmp.Diff(want, got.body.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// testV1alpha1 plays a client of OpenKruise's v1alpha1 and nothing newer.
func testV1alpha1(t *testing.T, e *env) {
	ns := e.namespace(t)
	newer := map[string]any{
		"reserveOrdinals":                      []any{int64(1), "4-5"},
		"ordinals":                             map[string]any{"start": int64(0)},
		"scaleStrategy":                        map[string]any{"maxUnavailable": "50%"},
		"lifecycle":                            map[string]any{"preDelete": map[string]any{"finalizersHandler": []any{"example.io/drain"}}},
		"persistentVolumeClaimRetentionPolicy": map[string]any{"whenDeleted": "Retain", "whenScaled": "Delete"},
		"volumeClaimUpdateStrategy":            map[string]any{"type": "OnDelete"},
	}
	created := e.send(t, http.MethodPost, "v1beta1", ns, "", manifest("v1beta1", "web", "replicas: 3", `replicas: 3
  reserveOrdinals: [1, "4-5"]
  ordinals: {start: 0}
  scaleStrategy: {maxUnavailable: 50%}
  lifecycle: {preDelete: {finalizersHandler: [example.io/drain]}}
  persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}
  volumeClaimUpdateStrategy: {type: OnDelete}`), nil)
	if created.err != nil {
		t.Fatal(created.err)
	}
	check := func(t *testing.T, got answer, want map[string]any) {
		t.Helper()
		if got.err != nil {
			t.Fatal(got.err)
		}
		read := e.get(t, "v1beta1", ns, "web")
		kept := map[string]any{}
		for field := range newer {
			if value, found, _ := unstructured.NestedFieldNoCopy(read.Object, "spec", field); found {
				kept[field] = value
			}
		}
		if diff := cmp.Diff(want, kept); diff != "" {
			t.Errorf("newer fields (-want +got):\n%s", diff)
		}
	}

	t.Run("both versions show all fields", func(t *testing.T) {
		check(t, created, newer)
		old := e.get(t, "v1alpha1", ns, "web")
		if diff := cmp.Diff(created.body.Object["spec"], old.Object["spec"]); diff != "" {
			t.Errorf("spec (-v1beta1 +v1alpha1):\n%s", diff)
		}
	})
	t.Run("a whole object written by an older client loses nothing", func(t *testing.T) {
		got := e.send(t, http.MethodPut, "v1alpha1", ns, "web", manifest("v1alpha1", "web", "name: web", "name: web\n  resourceVersion: '"+e.get(t, "v1alpha1", ns, "web").GetResourceVersion()+"'", "replicas: 3", "replicas: 9"), nil)
		check(t, got, newer)
		if replicas, _, _ := unstructured.NestedInt64(got.body.Object, "spec", "replicas"); replicas != 9 {
			t.Errorf("replicas %d, want 9", replicas)
		}
	})
	t.Run("scaling through the older version loses nothing", func(t *testing.T) {
		cmd := e.cluster.Kubectl(t.Context(), "scale", "--namespace="+ns, "statefulsets.v1alpha1.apps.kruise.io/web", "--replicas=4")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		check(t, answer{}, newer)
	})
	t.Run("a newer field that an older version names is taken", func(t *testing.T) {
		got := e.send(t, http.MethodPatch, "v1alpha1", ns, "web", `{spec: {reserveOrdinals: [7], scaleStrategy: {maxUnavailable: 1}}}`, nil)
		want := map[string]any{}
		for k, v := range newer {
			want[k] = v
		}
		want["reserveOrdinals"] = []any{int64(7)}
		want["scaleStrategy"] = map[string]any{"maxUnavailable": int64(1)}
		check(t, got, want)
	})
	t.Run("a newer client removes a field by leaving it out", func(t *testing.T) {
		body := manifest("v1beta1", "web", "name: web", "name: web\n  resourceVersion: '"+e.get(t, "v1beta1", ns, "web").GetResourceVersion()+"'")
		got := e.send(t, http.MethodPut, "v1beta1", ns, "web", body, nil)
		check(t, got, map[string]any{"persistentVolumeClaimRetentionPolicy": map[string]any{"whenDeleted": "Retain", "whenScaled": "Retain"}})
	})
}

func testPrinting(t *testing.T, e *env) {
	ns := e.namespace(t)
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", manifest("v1beta1", "web"), nil); got.err != nil {
		t.Fatal(got.err)
	}
	for _, resource := range []string{"asts", "statefulsets.v1beta1.apps.kruise.io", "statefulsets.v1alpha1.apps.kruise.io", "sts.apps.kruise.io"} {
		out, err := e.cluster.Kubectl(t.Context(), "get", "--namespace="+ns, resource).CombinedOutput()
		if err != nil {
			t.Errorf("get %s: %v: %s", resource, err, out)
			continue
		}
		header, row, _ := strings.Cut(string(out), "\n")
		if got := strings.Fields(header); !cmp.Equal(got, []string{"NAME", "DESIRED", "CURRENT", "UPDATED", "READY", "AGE", "STALLED"}) {
			t.Errorf("get %s: columns %v", resource, got)
		}
		if got := strings.Fields(row); len(got) < 2 || got[0] != "web" || got[1] != "3" {
			t.Errorf("get %s: row %v", resource, got)
		}
	}
	out, err := e.cluster.Kubectl(t.Context(), "get", "--namespace="+ns, "asts", "-o", "wide").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "CONTAINERS") || !strings.Contains(string(out), "example/web:v1") {
		t.Errorf("get -o wide: %v: %s", err, out)
	}
}

func (e *env) get(t *testing.T, version, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	got := e.send(t, http.MethodGet, version, namespace, name, "", nil)
	if got.err != nil {
		t.Fatal(got.err)
	}
	return got.body
}
