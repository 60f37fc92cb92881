// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admission_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// disruptionBudget is a budget of a version; edits replace one text by another.
func disruptionBudget(version string, edits ...string) string {
	return environment.Edited(strings.ReplaceAll(`
apiVersion: policy.kruise.io/VERSION
kind: PodUnavailableBudget
metadata:
  name: web
  annotations: {a: b}
spec:
  selector: {matchLabels: {app: web}}
  maxUnavailable: 1
`, "VERSION", version), edits...)
}

func testPodUnavailableBudget(t *testing.T, e *env) {
	t.Run("create", func(t *testing.T) { testCreateBudget(t, e) })
	t.Run("update", func(t *testing.T) { testUpdateBudget(t, e) })
	t.Run("versions", func(t *testing.T) { testBudgetVersions(t, e) })
}

// testCreateBudget shows the refusals of the schema, which comes first, and the webhook.
func testCreateBudget(t *testing.T, e *env) {
	ns := e.namespace(t)
	const selector, limit, note = "selector: {matchLabels: {app: web}}", "maxUnavailable: 1", "{a: b}"
	for what, tc := range map[string]struct {
		alpha         bool
		edits         []string
		wantFields    []string
		wantMessage   string
		wantedWarning string
	}{
		"all is well":                 {},
		"all is well in v1alpha1":     {alpha: true},
		"a target":                    {edits: []string{selector, "targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}"}},
		"neither selector nor target": {edits: []string{selector, ""}, wantFields: []string{"spec.selector, targetRef"}, wantMessage: "exactly one of them"},
		"selector and target":         {edits: []string{selector, selector + "\n  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}"}, wantFields: []string{"spec.selector, targetRef"}},
		"a target without a name":     {edits: []string{selector, "targetRef: {apiVersion: apps/v1, kind: Deployment}"}, wantFields: []string{"spec.targetRef"}},
		"an empty selector":           {edits: []string{selector, "selector: {}"}, wantFields: []string{"spec.selector"}, wantMessage: "must name labels"},
		"no limit":                    {edits: []string{limit, ""}, wantFields: []string{"spec.maxUnavailable, minAvailable"}},
		"two limits":                  {edits: []string{limit, limit + "\n  minAvailable: 50%"}, wantFields: []string{"spec.maxUnavailable, minAvailable"}},
		"a negative limit":            {edits: []string{limit, "maxUnavailable: -1"}, wantFields: []string{"spec.maxUnavailable"}},
		"more than all":               {edits: []string{limit, "minAvailable: 101%"}, wantFields: []string{"spec.minAvailable"}, wantMessage: "100%"},
		"a limit of letters":          {edits: []string{limit, "maxUnavailable: few"}, wantFields: []string{"spec.maxUnavailable"}},
		"nothing may go":              {edits: []string{limit, "maxUnavailable: 0"}, wantedWarning: "no pod may become unavailable"},
		"an unknown operation":        {edits: []string{limit, limit + "\n  protectOperations: [DELETE, READ]"}, wantFields: []string{"spec.protectOperations[1]"}},
		"updates without the gate":    {edits: []string{limit, limit + "\n  protectOperations: [UPDATE]"}, wantedWarning: "updates are not checked while the feature gate PodUnavailableBudgetUpdateGate is off"},
		"a total of none":             {edits: []string{limit, limit + "\n  protectTotalReplicas: 0"}, wantFields: []string{"spec.protectTotalReplicas"}},
		"nobody is ignored":           {edits: []string{limit, limit + "\n  ignoredPodSelector: {}"}, wantFields: []string{"spec.ignoredPodSelector"}},
		"an unknown operation in the annotation": {
			alpha: true, edits: []string{note, `{kruise.io/pub-protect-operations: "DELETE,READ"}`}, wantFields: []string{"metadata.annotations[kruise.io/pub-protect-operations]"},
		},
		"a total that is none in the annotation": {
			alpha: true, edits: []string{note, `{pub.kruise.io/protect-total-replicas: many}`}, wantFields: []string{"metadata.annotations[pub.kruise.io/protect-total-replicas]"},
		},
		"a failure policy that is none": {
			edits: []string{note, `{operator.kruise.io/disruption-failure-policy: Maybe}`}, wantFields: []string{"metadata.annotations[operator.kruise.io/disruption-failure-policy]"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			version := "v1beta1"
			if tc.alpha {
				version = "v1alpha1"
			}
			got := e.send(t, http.MethodPost, version, ns, "", disruptionBudget(version, tc.edits...), map[string]string{"dryRun": "All"})
			if diff := cmp.Diff(tc.wantFields, fields(got.err)); diff != "" || (tc.wantFields != nil) != (got.err != nil) {
				t.Errorf("fields (-want +got):\n%s\n%v", diff, got.err)
			}
			if got.err != nil && !strings.Contains(got.err.Error(), tc.wantMessage) {
				t.Errorf("message %q does not contain %q", got.err, tc.wantMessage)
			}
			said := slices.ContainsFunc(got.warnings, func(w string) bool { return strings.Contains(w, tc.wantedWarning) })
			if tc.wantedWarning != "" && !said {
				t.Errorf("warnings are %q", got.warnings)
			}
		})
	}
}

func testUpdateBudget(t *testing.T, e *env) {
	ns := e.namespace(t)
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", disruptionBudget("v1beta1"), nil); got.err != nil {
		t.Fatal(got.err)
	}
	for patch, refused := range map[string]string{
		`{"spec": {"selector": {"matchLabels": {"app": "other"}}}}`:                                                                    "spec.selector, targetRef",
		`{"spec": {"selector": null, "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}}`:                    "spec.selector, targetRef",
		`{"spec": {"maxUnavailable": null, "minAvailable": "50%"}}`:                                                                    "",
		`{"spec": {"protectTotalReplicas": 3}, "metadata": {"annotations": {"pub.kruise.io/protect-total-replicas": "4"}}}`:            "metadata.annotations[pub.kruise.io/protect-total-replicas]",
		`{"metadata": {"finalizers": ["example.io/hold"]}}`:                                                                            "",
		`{"metadata": {"annotations": {"operator.kruise.io/disruption-failure-policy": "Ignore"}}, "spec": {"maxUnavailable": "25%"}}`: "",
	} {
		got := e.send(t, http.MethodPatch, "v1beta1", ns, "web", patch, map[string]string{"dryRun": "All"})
		if refused == "" && got.err != nil || refused != "" && !slices.Equal(fields(got.err), []string{refused}) {
			t.Errorf("%s: %v", patch, got.err)
		}
	}
	second := e.send(t, http.MethodPost, "v1beta1", ns, "", disruptionBudget("v1beta1", "name: web", "name: again"), nil)
	if !slices.Equal(fields(second.err), []string{"spec.selector"}) || !strings.Contains(second.err.Error(), "PodUnavailableBudget web can match the same pods") {
		t.Errorf("a second budget for the same pods: %v", second.err)
	}
}

// testBudgetVersions writes one version and reads the other: what v1alpha1 has no fields for is in annotations.
func testBudgetVersions(t *testing.T, e *env) {
	ns := e.namespace(t)
	const annotations = `{kruise.io/pub-protect-operations: "DELETE, EVICT", pub.kruise.io/protect-total-replicas: "15"}`
	if got := e.send(t, http.MethodPost, "v1alpha1", ns, "", disruptionBudget("v1alpha1", "{a: b}", annotations), nil); got.err != nil {
		t.Fatal(got.err)
	}
	got := e.send(t, http.MethodPatch, "v1beta1", ns, "web", `{"spec": {"ignoredPodSelector": {"matchLabels": {"role": "canary"}}}}`, nil)
	if got.err != nil {
		t.Fatal(got.err)
	}
	spec := func(b *unstructured.Unstructured) any { return b.Object["spec"] }
	want := map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}, "maxUnavailable": int64(1),
		"protectOperations": []any{"DELETE", "EVICT"}, "protectTotalReplicas": int64(15), "ignoredPodSelector": map[string]any{"matchLabels": map[string]any{"role": "canary"}},
	}
	if diff := cmp.Diff(any(want), spec(got.body)); diff != "" {
		t.Errorf("v1beta1 (-want +got):\n%s", diff)
	}
	// A client of v1alpha1 changes the limit, and loses nothing.
	if got := e.send(t, http.MethodPatch, "v1alpha1", ns, "web", `{"spec": {"maxUnavailable": 2}}`, nil); got.err != nil {
		t.Fatal(got.err)
	}
	want["maxUnavailable"] = int64(2)
	got = e.send(t, http.MethodPatch, "v1beta1", ns, "web", `{"metadata": {"labels": {"a": "b"}}}`, nil)
	if diff := cmp.Diff(any(want), spec(got.body)); got.err != nil || diff != "" {
		t.Errorf("after a write of v1alpha1 (-want +got):\n%s %v", diff, got.err)
	}
	e.checkColumns(t, ns, "NAME ALLOWED CURRENT DESIRED TOTAL STALLED", "podunavailablebudgets.v1beta1.policy.kruise.io", "podunavailablebudgets.v1alpha1.policy.kruise.io", "pub")
}
