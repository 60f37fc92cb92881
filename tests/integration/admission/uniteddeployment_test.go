// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admission_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// Templates of UnitedDeployments.
const (
	ofCloneSets = `
    cloneSetTemplate:
      metadata: {labels: {app: shop}}
      spec:
        template:
          metadata: {labels: {app: shop}}
          spec: {containers: [{name: main, image: "example/shop:v1"}]}
`
	ofStatefulSets = `
    statefulSetTemplate:
      metadata: {labels: {app: shop}}
      spec:
        serviceName: shop
        template:
          metadata: {labels: {app: shop}}
          spec: {containers: [{name: main, image: "example/shop:v1"}]}
`
	ofAdvancedStatefulSets = `
    advancedStatefulSetTemplate:
      metadata: {labels: {app: shop}}
      spec:
        serviceName: shop
        template:
          metadata: {labels: {app: shop}}
          spec: {containers: [{name: main, image: "example/shop:v1"}]}
`
	ofDeployments = `
    deploymentTemplate:
      metadata: {labels: {app: shop}}
      spec:
        template:
          metadata: {labels: {app: shop}}
          spec: {containers: [{name: main, image: "example/shop:v1"}]}
`
)

// unitedDeployment is a good UnitedDeployment of a version; edits replace text in it, old and new in turns.
func unitedDeployment(version, name, template string, edits ...string) string {
	text := strings.NewReplacer("VERSION", version, "NAME", name).Replace(`
apiVersion: apps.kruise.io/VERSION
kind: UnitedDeployment
metadata:
  name: NAME
spec:
  replicas: 6
  selector: {matchLabels: {app: shop}}
  template:` + template + `  topology:
    subsets:
    - name: a
      nodeSelectorTerm: {matchExpressions: [{key: zone, operator: In, values: [a]}]}
    - name: b
`)
	return environment.Edited(text, edits...)
}

func testUnitedDeployment(t *testing.T, e *env) {
	t.Run("create", func(t *testing.T) { testUnitedCreate(t, e) })
	t.Run("templates stay as they are written", func(t *testing.T) { testUnitedOpaque(t, e) })
	t.Run("update", func(t *testing.T) { testUnitedUpdate(t, e) })
	t.Run("scale", func(t *testing.T) { testUnitedScale(t, e) })
	t.Run("status of v1alpha1", func(t *testing.T) { testUnitedStatus(t, e) })
	inTurn(t, "the largest", 1, func(t *testing.T) { testUnitedLargest(t, e) })
	t.Run("printing", func(t *testing.T) { testUnitedPrinting(t, e) })
}

func testUnitedCreate(t *testing.T, e *env) {
	ns := e.namespace(t)
	const second = "- name: b"
	under := func(lines string) []string { return []string{second, second + "\n      " + lines} }
	const inCloneSet, subsets = "spec.template.cloneSetTemplate", "spec.topology.subsets"
	const container = `containers: [{name: main, image: "example/shop:v1"}]`
	cases := map[string]struct {
		template     string
		edits        []string
		wantFields   []string
		wantMessage  string
		wantWarnings []string
	}{
		"of CloneSets":              {},
		"of StatefulSets":           {template: ofStatefulSets},
		"of Advanced StatefulSets":  {template: ofAdvancedStatefulSets},
		"of Deployments":            {template: ofDeployments},
		"with every field":          {edits: under("replicas: 50%\n      tolerations: [{key: pool, operator: Exists}]\n      patch: {spec: {priorityClassName: high}}\n    scheduleStrategy: {type: Fixed}\n  revisionHistoryLimit: 3\n  updateStrategy: {type: Manual, manualUpdate: {partitions: {a: 1}}}")},
		"a long name":               {edits: []string{"name: web", "name: " + strings.Repeat("n", 60)}},
		"a name with a dot":         {edits: []string{"name: web", "name: web.shop"}},
		"no replicas at all":        {edits: []string{"replicas: 6", "replicas: 0"}},
		"a selector of expressions": {edits: []string{"selector: {matchLabels: {app: shop}}", "selector: {matchExpressions: [{key: app, operator: In, values: [shop]}]}"}},

		"negative replicas":           {edits: []string{"replicas: 6", "replicas: -1"}, wantFields: []string{"spec.replicas"}},
		"no selector":                 {edits: []string{"selector: {matchLabels: {app: shop}}", "selector: {}"}, wantFields: []string{"spec.selector"}},
		"a strategy that is none":     {edits: under("replicas: 1\n  updateStrategy: {type: Rolling}"), wantFields: []string{"spec.updateStrategy.type"}},
		"a schedule that is none":     {edits: under("minReplicas: 1\n    scheduleStrategy: {type: Sometimes}"), wantFields: []string{"spec.topology.scheduleStrategy.type"}},
		"a subset twice":              {edits: []string{"- name: b", "- name: a"}, wantFields: []string{subsets + "[1]"}},
		"a bad expression":            {edits: []string{"operator: In", "operator: Near"}, wantFields: []string{subsets + "[0].nodeSelectorTerm.matchExpressions[0].operator"}, wantMessage: `"DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"`},
		"a bad toleration":            {edits: under("tolerations: [{operator: Equal}]"), wantFields: []string{subsets + "[1].tolerations[0].operator"}},
		"a size that is none":         {edits: under("replicas: half"), wantFields: []string{subsets + "[1].replicas"}, wantMessage: "a whole percentage from 0% to 100%"},
		"an unknown partition":        {edits: under("replicas: 1\n  updateStrategy: {manualUpdate: {partitions: {z: 1}}}"), wantFields: []string{"spec.updateStrategy.manualUpdate.partitions[z]"}},
		"a patch of selector labels":  {edits: under("patch: {metadata: {labels: {app: other}}}"), wantFields: []string{subsets + "[1].patch"}},
		"more than all":               {edits: under("replicas: 7"), wantFields: []string{subsets}, wantMessage: "must not add up to more than spec.replicas, which is 6"},
		"minima above all":            {edits: under("minReplicas: 7"), wantWarnings: []string{"spec.topology.subsets: minReplicas add up to 7, which is more than spec.replicas (6): subsets that are earlier in the list get theirs first"}},
		"what a CloneSet refuses":     {edits: []string{container, "containers: []"}, wantFields: []string{inCloneSet + ".spec.template.spec.containers"}, wantMessage: "subset a: "},
		"what the patch makes of it":  {edits: under(`patch: {spec: {containers: [{name: main, image: ""}]}}`), wantFields: []string{inCloneSet + ".spec.template.spec.containers[0].image"}, wantMessage: "subset b: "},
		"what a CloneSet's schema is": {edits: []string{"spec:\n        template:", "spec:\n        minReadySeconds: soon\n        template:"}, wantFields: []string{inCloneSet + ".spec.minReadySeconds"}},
		"what a StatefulSet refuses":  {template: ofStatefulSets, edits: []string{"serviceName: shop", "serviceName: shop\n        podManagementPolicy: Sometimes"}, wantFields: []string{"spec.template.statefulSetTemplate.spec.podManagementPolicy"}},
		"what a Deployment refuses":   {template: ofDeployments, edits: []string{"spec:\n        template:", "spec:\n        progressDeadlineSeconds: 0\n        template:"}, wantFields: []string{"spec.template.deploymentTemplate.spec.progressDeadlineSeconds"}},
		"replicas in the template":    {template: ofDeployments, edits: []string{"spec:\n        template:", "spec:\n        replicas: 2\n        template:"}, wantFields: []string{"spec.template.deploymentTemplate.spec.replicas"}},
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for name, tc := range cases {
			t.Run(version+"/"+name, func(t *testing.T) {
				template := tc.template
				if template == "" {
					template = ofCloneSets
				}
				got := e.send(t, http.MethodPost, version, ns, "", unitedDeployment(version, "web", template, tc.edits...), map[string]string{"dryRun": "All"})
				got.check(t, tc.wantFields, tc.wantMessage)
				got.checkWarnings(t, tc.wantWarnings)
			})
		}
	}
}

// testUnitedOpaque: templates get no default and no field of ours, and keep fields of kinds
// newer than us.
func testUnitedOpaque(t *testing.T, e *env) {
	ns := e.namespace(t)
	for i, template := range []string{ofCloneSets, ofStatefulSets, ofAdvancedStatefulSets, ofDeployments} {
		name := fmt.Sprintf("web-%d", i)
		got := e.send(t, http.MethodPost, "v1beta1", ns, "", unitedDeployment("v1beta1", name, template), nil)
		if got.err != nil {
			t.Fatal(got.err)
		}
		spec := got.body.Object["spec"].(map[string]any)
		for field, template := range spec["template"].(map[string]any) {
			written := template.(map[string]any)["spec"].(map[string]any)
			delete(written, "serviceName")
			want := map[string]any{"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "shop"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": "example/shop:v1"}}},
			}}
			if diff := cmp.Diff(want, written); diff != "" {
				t.Errorf("spec of %s (-written +stored):\n%s", field, diff)
			}
		}
		if spec["revisionHistoryLimit"] != int64(10) || spec["updateStrategy"].(map[string]any)["type"] != "Manual" {
			t.Errorf("the defaults of the UnitedDeployment itself: %v", spec)
		}
		for _, version := range []string{"v1beta1", "v1alpha1"} {
			testReplaced(t, e, version, ns, name)
		}
		e.remove(t, ns, name)
	}
}

func testUnitedUpdate(t *testing.T, e *env) {
	ns := e.namespace(t)
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", unitedDeployment("v1beta1", "web", ofStatefulSets), nil); got.err != nil {
		t.Fatal(got.err)
	}
	const inTemplate = "spec.template.statefulSetTemplate.spec"
	of := func(text string) string { return "{spec: {template: {statefulSetTemplate: {spec: " + text + "}}}}" }
	cases := map[string]struct {
		patch        string
		wantFields   []string
		wantWarnings []string
	}{
		"replicas":        {patch: `{spec: {replicas: 300}}`},
		"partitions":      {patch: `{spec: {updateStrategy: {manualUpdate: {partitions: {a: 1}}}}}`},
		"the image":       {patch: of(`{template: {spec: {containers: [{name: main, image: "example/shop:v2"}]}}}`)},
		"what may change": {patch: of(`{minReadySeconds: 3, persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Retain}, ordinals: {start: 1}, updateStrategy: {type: OnDelete}}`)},
		"the selector":    {patch: `{spec: {selector: {matchLabels: {app: shop, tier: x}}}}`, wantFields: []string{"spec.selector"}},
		"the service":     {patch: of(`{serviceName: other}`), wantFields: []string{inTemplate + ".serviceName"}},
		"the policy":      {patch: of(`{podManagementPolicy: Parallel}`), wantFields: []string{inTemplate + ".podManagementPolicy"}},
		"other nodes": {
			patch: `{spec: {topology: {subsets: [{name: a}, {name: b}]}}}`, wantFields: []string{"spec.topology.subsets[0].nodeSelectorTerm"},
		},
		"other tolerations": {
			patch:      `{spec: {topology: {subsets: [{name: b, tolerations: [{operator: Exists}]}]}}}`,
			wantFields: []string{"spec.topology.subsets[0].tolerations"},
		},
		"another kind": {
			patch:        "{spec: {template: {statefulSetTemplate: null, deploymentTemplate: {metadata: {labels: {app: shop}}, spec: {template: {metadata: {labels: {app: shop}}, spec: {containers: [{name: main, image: a}]}}}}}}}",
			wantWarnings: []string{"spec.template: the workloads of statefulSetTemplate are replaced by those of deploymentTemplate, and their pods are deleted at once"},
		},
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for name, tc := range cases {
			t.Run(version+"/"+name, func(t *testing.T) {
				got := e.send(t, http.MethodPatch, version, ns, "web", tc.patch, map[string]string{"dryRun": "All"})
				if diff := cmp.Diff(tc.wantFields, fields(got.err)); diff != "" || (got.err != nil) != (tc.wantFields != nil) {
					t.Errorf("fields (-want +got):\n%s\n%v", diff, got.err)
				}
				got.checkWarnings(t, tc.wantWarnings)
			})
		}
	}
	e.remove(t, ns, "web")
}

// testUnitedScale scales by the subresource, invisible to webhooks, past fixed sizes; and
// edits inconsistent sizes afterwards.
func testUnitedScale(t *testing.T, e *env) {
	ns := e.namespace(t)
	body := unitedDeployment("v1beta1", "web", ofCloneSets, "- name: b", "  replicas: 2\n    - name: b\n      replicas: 4")
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", body, nil); got.err != nil {
		t.Fatal(got.err)
	}
	for replicas, want := range map[string]string{"9": "", "-1": "spec.replicas"} {
		out, err := e.cluster.Kubectl(t.Context(), "patch", "ud", "web", "--namespace="+ns, "--subresource=scale", "--type=merge", `--patch={"spec":{"replicas":`+replicas+`}}`).CombinedOutput()
		if (err != nil) != (want != "") || !strings.Contains(string(out), want) {
			t.Errorf("scaling to %s: %v\n%s", replicas, err, out)
		}
	}
	got := e.send(t, http.MethodPatch, "v1beta1", ns, "web", `{metadata: {labels: {a: b}}, spec: {revisionHistoryLimit: 3}}`, nil)
	if got.err != nil || len(got.warnings) != 1 || !strings.Contains(got.warnings[0], "replicas add up to 6, and spec.replicas is 9") {
		t.Errorf("an edit of what does not add up: %v, warnings %q", got.err, got.warnings)
	}
	e.remove(t, ns, "web")
}

// testUnitedStatus stores v1alpha1's status of an update, and reads it in both versions.
func testUnitedStatus(t *testing.T, e *env) {
	ns := e.namespace(t)
	if got := e.send(t, http.MethodPost, "v1alpha1", ns, "", unitedDeployment("v1alpha1", "web", ofCloneSets), nil); got.err != nil {
		t.Fatal(got.err)
	}
	status := map[string]any{
		"currentRevision": "web-1", "updatedRevision": "web-2", "replicas": int64(6), "readyReplicas": int64(5), "updatedReplicas": int64(4), "updatedReadyReplicas": int64(3),
		"subsetReplicas": map[string]any{"a": int64(2), "b": int64(4)},
		"updateStatus":   map[string]any{"updatedRevision": "web-2", "currentPartitions": map[string]any{"a": int64(1), "b": int64(0)}},
		"subsetStatuses": []any{map[string]any{"name": "a", "replicas": int64(2), "readyReplicas": int64(0), "updatedReplicas": int64(0), "partition": int64(1)}},
	}
	stored := e.get(t, "v1alpha1", ns, "web")
	stored.Object["status"] = status
	if err := e.client.Status().Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		if diff := cmp.Diff(status, e.get(t, version, ns, "web").Object["status"]); diff != "" {
			t.Errorf("the status in %s (-written +read):\n%s", version, diff)
		}
	}
	e.remove(t, ns, "web")
}

// testUnitedLargest stores, changes and rejects changes of the largest UnitedDeployment:
// its rules' cost stays below the API server's limit.
func testUnitedLargest(t *testing.T, e *env) {
	ns := e.namespace(t)
	var subsets, labels strings.Builder
	note := strings.Repeat("x", 1000)
	for i := range 500 {
		fmt.Fprintf(&subsets, "    - {name: s-%03d, nodeSelectorTerm: {matchExpressions: [{key: zone, operator: In, values: [\"%d\"]}]}, patch: {metadata: {annotations: {note: %s}}}}\n", i, i, note)
	}
	for i := range 990 {
		fmt.Fprintf(&labels, ", example.com/a-label-with-a-long-name-%04d: \"%s\"", i, strings.Repeat("v", 60))
	}
	many := "{app: shop" + labels.String() + "}" // of the selector, the workloads and the pods
	body := unitedDeployment("v1beta1", "web", ofCloneSets, "replicas: 6", "replicas: 500",
		"{app: shop}", many, "{app: shop}", many, "{app: shop}", many)
	head, _, _ := strings.Cut(body, "    - name: a")
	body = head + subsets.String()
	if len(body) < 700_000 {
		t.Fatalf("the object has %d bytes only", len(body))
	}
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", body, nil); got.err != nil {
		t.Fatal(got.err)
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		if got := e.send(t, http.MethodPatch, version, ns, "web", `{spec: {replicas: 501}}`, map[string]string{"dryRun": "All"}); got.err != nil {
			t.Errorf("scaling in %s: %v", version, got.err)
		}
		got := e.send(t, http.MethodPatch, version, ns, "web", `{spec: {selector: {matchLabels: {"example.com/a-label-with-a-long-name-0989": other}}}}`, map[string]string{"dryRun": "All"})
		if diff := cmp.Diff([]string{"spec.selector"}, fields(got.err)); diff != "" || got.err == nil || strings.Contains(got.err.Error(), "budget") {
			t.Errorf("another selector in %s (-want +got):\n%s\n%v", version, diff, got.err)
		}
	}
	e.storeLargestStatus(t, ns)
	more := strings.Replace(body, "name: web", "name: more", 1) + "    - {name: one-more}\n"
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", more, nil); got.err == nil || !strings.Contains(got.err.Error(), "500") {
		t.Errorf("one subset more than 500: %v", got.err)
	}
	e.remove(t, ns, "web")
}

// storeLargestStatus stores the fullest status for 500 subsets: it fits beside a large
// spec.
func (e *env) storeLargestStatus(t *testing.T, ns string) {
	t.Helper()
	stored := e.get(t, "v1beta1", ns, "web")
	sizes, partitions, statuses := map[string]any{}, map[string]any{}, []any{}
	for i := range 500 {
		name, n := fmt.Sprintf("s-%03d", i), int64(1_000_000+i)
		sizes[name], partitions[name] = n, n
		statuses = append(statuses, map[string]any{
			"name": name, "replicas": n, "readyReplicas": n, "updatedReplicas": n, "partition": n, "reservedPods": n, "workload": "web-" + name,
			"conditions": []any{map[string]any{
				"type": "Schedulable", "status": "False", "reason": "reschedule", "lastTransitionTime": "2026-01-02T03:04:05Z",
				"message": "Pods of the subset find no node; more are created in other subsets.",
			}},
		})
	}
	stored.Object["status"] = map[string]any{
		"currentRevision": "web-1", "updatedRevision": "web-2", "replicas": int64(1), "readyReplicas": int64(1), "updatedReplicas": int64(1), "updatedReadyReplicas": int64(1),
		"subsetReplicas": sizes, "updateStatus": map[string]any{"updatedRevision": "web-2", "currentPartitions": partitions}, "subsetStatuses": statuses,
	}
	if err := e.client.Status().Update(t.Context(), stored); err != nil {
		t.Errorf("the status of 500 subsets: %v", err)
	}
}

func testUnitedPrinting(t *testing.T, e *env) {
	ns := e.namespace(t)
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", unitedDeployment("v1beta1", "web", ofCloneSets), nil); got.err != nil {
		t.Fatal(got.err)
	}
	e.checkColumns(t, ns, "NAME DESIRED CURRENT UPDATED READY AGE STALLED", "uniteddeployments.v1beta1.apps.kruise.io", "uniteddeployments.v1alpha1.apps.kruise.io", "ud")
	e.remove(t, ns, "web")
}
