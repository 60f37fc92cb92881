// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admission_test

import (
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// workloadSpread is a WorkloadSpread of a Deployment; edits replace one text by another.
func workloadSpread(edits ...string) string {
	return environment.Edited(`
apiVersion: apps.kruise.io/v1beta1
kind: WorkloadSpread
metadata: {name: web}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  targetFilter: {selector: {matchLabels: {app: web}}}
  subsets:
  - {name: a, maxReplicas: 2, requiredNodeSelector: {matchExpressions: [{key: zone, operator: In, values: [a]}]}}
  - {name: b, preferredNodeSelector: [{weight: 1, preference: {matchExpressions: [{key: zone, operator: Exists}]}}], tolerations: [{key: spot, operator: Exists}]}
  scheduleStrategy: {type: Adaptive, adaptive: {rescheduleCriticalSeconds: 30}}
`, edits...)
}

func testWorkloadSpread(t *testing.T, e *env) {
	t.Run("create", func(t *testing.T) { testCreateSpread(t, e) })
	t.Run("update", func(t *testing.T) { testUpdateSpread(t, e) })
}

// testCreateSpread goes through the table of refusals of the specification.
func testCreateSpread(t *testing.T, e *env) {
	ns := e.namespace(t)
	target := "{apiVersion: apps/v1, kind: Deployment, name: web}"
	strategy := "{type: Adaptive, adaptive: {rescheduleCriticalSeconds: 30}}"
	deployment := &appsv1.Deployment{}
	if err := yaml.Unmarshal([]byte(`{metadata: {name: patched}, spec: {selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: main, image: x}]}}}}`), deployment); err != nil {
		t.Fatal(err)
	}
	deployment.Namespace = ns
	if err := e.client.Create(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	taken := workloadSpread("metadata: {name: web}", "metadata: {name: first}", "Deployment, name: web", "Deployment, name: taken")
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", taken, nil); got.err != nil {
		t.Fatal(got.err)
	}
	patch := func(text string) []string {
		return []string{target, strings.Replace(target, "web", "patched", 1), "maxReplicas: 2,", "maxReplicas: 2, patch: " + text + ","}
	}
	for what, tc := range map[string]struct {
		edits       []string
		wantFields  []string
		wantMessage string
	}{
		"all is well":              {},
		"a patch that fits":        {edits: patch("{metadata: {labels: {zone: a}}, spec: {containers: [{name: main, env: [{name: A}]}]}}")},
		"percentages":              {edits: []string{"maxReplicas: 2", "maxReplicas: 30%"}},
		"no strategy":              {edits: []string{"  scheduleStrategy: " + strategy + "\n", ""}},
		"no target":                {edits: []string{"  targetRef: " + target + "\n", ""}, wantFields: []string{"spec.targetRef"}},
		"a target without a kind":  {edits: []string{"kind: Deployment, ", ""}, wantFields: []string{"spec.targetRef"}, wantMessage: "must not be empty"},
		"a Deployment of ours":     {edits: []string{"apiVersion: apps/v1", "apiVersion: apps.kruise.io/v1beta1"}, wantFields: []string{"spec.targetRef.apiVersion"}},
		"a DaemonSet":              {edits: []string{"kind: Deployment", "kind: DaemonSet"}, wantFields: []string{"spec.targetRef.kind"}, wantMessage: "must be CloneSet, Deployment, ReplicaSet, StatefulSet or Job"},
		"a workload that is taken": {edits: []string{target, strings.Replace(target, "web", "taken", 1)}, wantFields: []string{"spec.targetRef"}, wantMessage: "is the target of WorkloadSpread first already"},
		"a selector that is none":  {edits: []string{"matchLabels: {app: web}", "matchExpressions: [{key: app, operator: Near}]"}, wantFields: []string{"spec.targetFilter.selector.matchExpressions[0].operator"}},
		"an empty name":            {edits: []string{"name: a,", `name: "",`}, wantFields: []string{"spec.subsets[0].name"}},
		"a name twice":             {edits: []string{"name: b", "name: a"}, wantFields: []string{"spec.subsets[1].name"}},
		"a term without values":    {edits: []string{"operator: In, values: [a]", "operator: In"}, wantFields: []string{"spec.subsets[0].requiredNodeSelector.matchExpressions[0].values"}},
		"a weight of 0":            {edits: []string{"weight: 1", "weight: 0"}, wantFields: []string{"spec.subsets[1].preferredNodeSelector[0].weight"}, wantMessage: "1 to 100"},
		"a bad toleration":         {edits: []string{"key: spot, operator: Exists", "key: spot, operator: Exists, value: x"}, wantFields: []string{"spec.subsets[1].tolerations[0].value"}},
		"a negative number":        {edits: []string{"maxReplicas: 2", "maxReplicas: -1"}, wantFields: []string{"spec.subsets[0].maxReplicas"}},
		"a percentage of ordinals": {edits: []string{"kind: Deployment", "kind: StatefulSet", "maxReplicas: 2", "maxReplicas: 30%"}, wantFields: []string{"spec.subsets[0].maxReplicas"}},
		"numbers and percentages":  {edits: []string{"maxReplicas: 2", "maxReplicas: 30%", "name: b,", "name: b, maxReplicas: 3,", strategy, "{}"}, wantFields: []string{"spec.subsets[1].maxReplicas"}},
		"more than 100%":           {edits: []string{"maxReplicas: 2", "maxReplicas: 60%", "name: b,", "name: b, maxReplicas: 60%,", strategy, "{}"}, wantFields: []string{"spec.subsets[1].maxReplicas"}},
		"less to the last":         {edits: []string{"maxReplicas: 2", "maxReplicas: 30%", "name: b,", "name: b, maxReplicas: 60%,", strategy, "{}"}, wantFields: []string{"spec.subsets[1].maxReplicas"}},
		"an unknown strategy":      {edits: []string{strategy, "{type: Other}"}, wantFields: []string{"spec.scheduleStrategy.type"}, wantMessage: `"Adaptive", "Fixed"`},
		"adaptive and fixed":       {edits: []string{"type: Adaptive", "type: Fixed"}, wantFields: []string{"spec.scheduleStrategy.type"}},
		"adaptive, the last full":  {edits: []string{"name: b,", "name: b, maxReplicas: 3,"}, wantFields: []string{"spec.scheduleStrategy.adaptive"}},
		"too many seconds":         {edits: []string{"rescheduleCriticalSeconds: 30", "rescheduleCriticalSeconds: 296"}, wantFields: []string{"spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds"}, wantMessage: "at most 295"},
		"a patch of a list":        {edits: patch(`"x"`), wantFields: []string{"spec.subsets[0].patch"}},
		"a patch of no pod":        {edits: patch("{spec: {containers: 3}}"), wantFields: []string{"spec.subsets[0].patch"}, wantMessage: "the pod with the patch"},
		"a patch of the selector":  {edits: patch("{metadata: {labels: {app: z}}}"), wantFields: []string{"spec.subsets[0].patch"}, wantMessage: "labels that select"},
		"a patch to a bad pod":     {edits: patch("{spec: {dnsPolicy: Sideways}}"), wantFields: []string{"spec.subsets[0].patch"}, wantMessage: "spec.template.spec.dnsPolicy"},
		"another failure policy":   {edits: []string{"metadata: {name: web}", "metadata: {name: web, annotations: {operator.kruise.io/injection-failure-policy: Sometimes}}"}, wantFields: []string{"metadata.annotations[operator.kruise.io/injection-failure-policy]"}},
	} {
		t.Run(what, func(t *testing.T) {
			e.send(t, http.MethodPost, "v1beta1", ns, "", workloadSpread(tc.edits...), map[string]string{"dryRun": "All"}).check(t, tc.wantFields, tc.wantMessage)
			older := strings.NewReplacer("v1beta1\nkind", "v1alpha1\nkind", "requiredNodeSelector", "requiredNodeSelectorTerm", "preferredNodeSelector", "preferredNodeSelectorTerms")
			var fields []string
			for _, field := range tc.wantFields {
				fields = append(fields, older.Replace(field))
			}
			e.send(t, http.MethodPost, "v1alpha1", ns, "", older.Replace(workloadSpread(tc.edits...)), map[string]string{"dryRun": "All"}).check(t, fields, tc.wantMessage)
		})
	}
}

func testUpdateSpread(t *testing.T, e *env) {
	ns := e.namespace(t)
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", workloadSpread(), nil); got.err != nil {
		t.Fatal(got.err)
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		e.checkPatches(t, version, ns, "web", map[string][]string{
			`{"spec": {"targetRef": {"name": "api"}}}`:                                               {"spec.targetRef"},
			`{"spec": {"targetRef": {"apiVersion": "apps/v2"}}}`:                                     nil,
			`{"spec": {"targetRef": null}}`:                                                          {"spec.targetRef"},
			`{"spec": {"subsets": []}}`:                                                              {"spec.subsets"},
			`{"spec": {"subsets": [{"name": "c"}]}}`:                                                 nil,
			`{"metadata": {"annotations": {"operator.kruise.io/injection-failure-policy": "Fail"}}}`: nil,
			`{"metadata": {"annotations": {"operator.kruise.io/injection-failure-policy": "x"}}}`:    {"metadata.annotations[operator.kruise.io/injection-failure-policy]"},
		})
	}
	e.checkColumns(t, ns, "NAME WORKLOADNAME WORKLOADKIND ADAPTIVE AGE STALLED", "ws", "workloadspreads.v1beta1.apps.kruise.io", "workloadspreads.v1alpha1.apps.kruise.io")
	out, err := e.cluster.Kubectl(t.Context(), "get", "ws", "--namespace="+ns, "--no-headers").CombinedOutput()
	if row := strings.Fields(string(out)); err != nil || len(row) < 4 || strings.Join(row[:4], " ") != "web web Deployment Adaptive" {
		t.Errorf("%v: the row is %s", err, out)
	}
}
