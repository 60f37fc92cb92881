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
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// distribution is a good ResourceDistribution of a version; edits replace text in it, old and new in turns.
func distribution(version, name string, edits ...string) string {
	text := strings.NewReplacer("VERSION", version, "NAME", name).Replace(`
apiVersion: apps.kruise.io/VERSION
kind: ResourceDistribution
metadata: {name: NAME}
spec:
  resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: "1"}}
  targets: {}
`)
	if version == "v1alpha1" {
		for i := range edits {
			edits[i] = strings.ReplaceAll(edits[i], "namespaceSelector", "namespaceLabelSelector")
		}
	}
	return environment.Edited(text, edits...)
}

func testResourceDistribution(t *testing.T, e *env) {
	t.Run("create", func(t *testing.T) { testDistributionCreate(t, e) })
	t.Run("update", func(t *testing.T) { testDistributionUpdate(t, e) })
	t.Run("versions", func(t *testing.T) { testDistributionVersions(t, e) })
}

func testDistributionCreate(t *testing.T, e *env) {
	const resource = `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: "1"}}`
	secret := func(fields string) []string {
		return []string{resource, `{apiVersion: v1, kind: Secret, metadata: {name: settings}, ` + fields + `}`}
	}
	targets := func(fields string) []string { return []string{"targets: {}", "targets: {" + fields + "}"} }
	cases := map[string]struct {
		edits        []string
		wantFields   []string
		wantMessage  string
		wantWarnings []string
	}{
		"no targets":       {},
		"every namespace":  {edits: targets("allNamespaces: true, excludedNamespaces: {list: [{name: a}]}")},
		"some namespaces":  {edits: targets("includedNamespaces: {list: [{name: a}, {name: b}]}, namespaceSelector: {matchLabels: {team: a}}")},
		"a Secret":         {edits: secret(`stringData: {a: "1"}`)},
		"fields to ignore": {edits: []string{"name: settings}", "name: settings, namespace: a, resourceVersion: \"7\", uid: b}"}},

		"a name that is none":     {edits: []string{"{name: NAME}", "{name: A_}"}, wantFields: []string{"metadata.name"}},
		"no resource":             {edits: []string{"resource: " + resource, ""}, wantFields: []string{"spec.resource"}},
		"an empty resource":       {edits: []string{resource, "{}"}, wantFields: []string{"spec.resource.apiVersion", "spec.resource.kind"}},
		"no targets at all":       {edits: []string{"targets: {}", ""}, wantFields: []string{"spec.targets"}},
		"a resource that is text": {edits: []string{resource, "settings"}, wantFields: []string{"spec.resource"}},
		"data that is no map":     {edits: []string{`{a: "1"}`, "[a]"}, wantFields: []string{"spec.resource.data"}},
		"another kind": {
			edits: []string{"kind: ConfigMap", "kind: Pod"}, wantFields: []string{"spec.resource"}, wantMessage: "must be a ConfigMap or a Secret of v1",
		},
		"another group":           {edits: []string{"apiVersion: v1,", "apiVersion: example.com/v1,"}, wantFields: []string{"spec.resource"}},
		"a resource without name": {edits: []string{"metadata: {name: settings}", "metadata: {}"}, wantFields: []string{"spec.resource.metadata.name"}},
		"a bad resource name":     {edits: []string{"name: settings", "name: Settings_"}, wantFields: []string{"spec.resource.metadata.name"}},
		"an unknown field":        {edits: []string{", data:", ", dat:"}, wantFields: []string{"spec.resource"}, wantMessage: "is no field of the resource"},
		"a bad key":               {edits: []string{`{a: "1"}`, `{"a/b": "1"}`}, wantFields: []string{"spec.resource.data[a/b]"}},
		"a pull secret without its key": {
			edits: secret("type: kubernetes.io/dockerconfigjson"), wantFields: []string{"spec.resource.data[.dockerconfigjson]"},
		},
		"a bad included namespace": {
			edits: targets("includedNamespaces: {list: [{name: A}]}"), wantFields: []string{"spec.targets.includedNamespaces.list[0].name"},
		},
		"a bad excluded namespace": {
			edits: targets(`excludedNamespaces: {list: [{name: "a.b"}]}`), wantFields: []string{"spec.targets.excludedNamespaces.list[0].name"},
		},
		"a namespace of 64 characters": {
			edits: targets("includedNamespaces: {list: [{name: " + strings.Repeat("a", 64) + "}]}"), wantFields: []string{"spec.targets.includedNamespaces.list[0].name"},
		},
		"a namespace twice": {
			edits: targets("includedNamespaces: {list: [{name: a}, {name: a}]}"), wantFields: []string{"spec.targets.includedNamespaces.list[1]"},
		},
		"a namespace in both lists": {
			edits: targets("includedNamespaces: {list: [{name: a}]}, excludedNamespaces: {list: [{name: a}]}"), wantFields: []string{"spec.targets"},
		},
		"a bad selector": {
			edits:      targets("namespaceSelector: {matchExpressions: [{key: a, operator: Like}]}"),
			wantFields: []string{"spec.targets.namespaceSelector.matchExpressions[0].operator"},
		},

		"a system namespace": {
			edits:        targets("includedNamespaces: {list: [{name: kube-system}]}"),
			wantWarnings: []string{"spec.targets.includedNamespaces: kube-system is a system namespace and gets no copy"},
		},
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for name, tc := range cases {
			t.Run(version+"/"+name, func(t *testing.T) {
				body := distribution(version, "NAME", append([]string(nil), tc.edits...)...)
				got := e.send(t, http.MethodPost, version, "", "", strings.ReplaceAll(body, "NAME", "settings"), map[string]string{"dryRun": "All"})
				var want []string
				for _, field := range tc.wantFields {
					if version == "v1alpha1" {
						field = strings.Replace(field, "namespaceSelector", "namespaceLabelSelector", 1)
					}
					want = append(want, field)
				}
				got.check(t, want, tc.wantMessage)
				got.checkWarnings(t, tc.wantWarnings)
			})
		}
	}
}

func testDistributionUpdate(t *testing.T, e *env) {
	if got := e.send(t, http.MethodPost, "v1beta1", "", "", distribution("v1beta1", "settings"), nil); got.err != nil {
		t.Fatal(got.err)
	}
	defer e.remove(t, "", "settings")
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		e.checkPatches(t, version, "", "settings", map[string][]string{
			`{spec: {resource: {data: {a: "2"}}}}`:                  nil,
			`{spec: {resource: {metadata: {labels: {a: b}}}}}`:      nil,
			`{spec: {targets: {allNamespaces: true}}}`:              nil,
			`{metadata: {finalizers: ["example.com/f"]}}`:           nil,
			`{spec: {resource: {metadata: {name: others}}}}`:        {"spec.resource"},
			`{spec: {resource: {kind: Secret, data: null}}}`:        {"spec.resource"},
			`{spec: {resource: {apiVersion: v2}}}`:                  {"spec.resource"},
			`{spec: {resource: {data: {"b/": "2"}}}}`:               {"spec.resource.data[b/]"},
			`{spec: {targets: {includedNamespaces: {list: [{}]}}}}`: {"spec.targets.includedNamespaces.list[0].name"},
		})
		testReplaced(t, e, version, "", "settings")
	}
}

// testDistributionVersions shows one object in both versions, and its columns.
func testDistributionVersions(t *testing.T, e *env) {
	if got := e.send(t, http.MethodPost, "v1alpha1", "", "", distribution("v1alpha1", "settings", "targets: {}", "targets: {namespaceSelector: {matchLabels: {team: a}}}"), nil); got.err != nil {
		t.Fatal(got.err)
	}
	defer e.remove(t, "", "settings")
	status := `{"status":{"desired":3,"succeeded":2,"failed":1,"conditions":[{"type":"ConflictOccurred","status":"True","reason":"it is there","failedNamespaces":["a"]}]}}`
	if _, err := e.dynamic(t, "v1beta1", "").Patch(t.Context(), "settings", types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	for version, names := range map[string][2]string{"v1beta1": {"namespaceSelector", "failedNamespaces"}, "v1alpha1": {"namespaceLabelSelector", "failedNamespace"}} {
		object := e.get(t, version, "", "settings").Object
		spec, _, _ := unstructured.NestedMap(object, "spec")
		wantSpec := map[string]any{
			"resource": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings"}, "data": map[string]any{"a": "1"}},
			"targets":  map[string]any{names[0]: map[string]any{"matchLabels": map[string]any{"team": "a"}}},
		}
		if diff := cmp.Diff(wantSpec, spec); diff != "" {
			t.Errorf("spec in %s (-want +got):\n%s", version, diff)
		}
		conditions, _, _ := unstructured.NestedSlice(object, "status", "conditions")
		want := []any{map[string]any{"type": "ConflictOccurred", "status": "True", "reason": "it is there", names[1]: []any{"a"}}}
		if diff := cmp.Diff(want, conditions); diff != "" {
			t.Errorf("conditions in %s (-want +got):\n%s", version, diff)
		}
		out, err := e.cluster.Kubectl(t.Context(), "get", "resourcedistributions."+version+".apps.kruise.io").CombinedOutput()
		header, row, _ := strings.Cut(string(out), "\n")
		if cells := strings.Fields(row); err != nil || strings.Join(strings.Fields(header), " ") != "NAME TOTAL SUCCEED FAILED AGE STALLED" || len(cells) < 4 || strings.Join(cells[:4], " ") != "settings 3 2 1" {
			t.Errorf("kubectl get in %s: %v: %s", version, err, out)
		}
	}
	if out, err := e.cluster.Kubectl(t.Context(), "get", "distributor", "--output=name").CombinedOutput(); err != nil || !strings.Contains(string(out), "resourcedistribution.apps.kruise.io/settings") {
		t.Errorf("by the short name: %v: %s", err, out)
	}
}
