// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admission_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/tests/framework/reach"
)

// testSchemaAlone shows the rules without webhooks, and that objects from such a time are
// usable afterwards.
func testSchemaAlone(t *testing.T, e *env) {
	ns := e.namespace(t)
	g := NewWithT(t)
	e.removeWebhooks(t)
	// The API server notices a moment later: until then a bad object is refused.
	g.Eventually(func(ctx context.Context) error {
		return e.sendContext(ctx, t, http.MethodPost, "v1beta1", ns, "", manifest("v1beta1", "bad",
			"name: bad", "name: bad\n  finalizers: [example.io/keep]",
			"replicas: 3", `reserveOrdinals: ["0-2000000000"]`, "containers:", "terminationGracePeriodSeconds: soon\n      containers:"), nil).err
	}).WithContext(t.Context()).WithTimeout(30 * time.Second).Should(Succeed())

	t.Run("the schema", func(t *testing.T) {
		for name, tc := range map[string]struct {
			edits []string
			want  []string
		}{
			"a negative partition":         {edits: []string{"{podUpdatePolicy: InPlaceIfPossible}", "{partition: -1}"}, want: []string{"spec.updateStrategy.rollingUpdate.partition"}},
			"ready for too long":           {edits: []string{"{podUpdatePolicy: InPlaceIfPossible}", "{minReadySeconds: 301}"}, want: []string{"spec.updateStrategy.rollingUpdate.minReadySeconds"}},
			"an unknown policy":            {edits: []string{"podManagementPolicy: Parallel", "podManagementPolicy: Sideways"}, want: []string{"spec.podManagementPolicy"}},
			"an unknown update type":       {edits: []string{"type: RollingUpdate", "type: Now"}, want: []string{"spec.updateStrategy.type"}},
			"nothing but the bare minimum": {edits: []string{"replicas: 3", "", "podManagementPolicy: Parallel", "", "  updateStrategy:\n    type: RollingUpdate\n    rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}\n", ""}},
			"nulls for what may be left out": {edits: []string{
				"replicas: 3", "replicas: null\n  volumeClaimTemplates: null\n  reserveOrdinals: null\n  lifecycle: null\n  ordinals: null\n  revisionHistoryLimit: null",
				"podManagementPolicy: Parallel", "podManagementPolicy: null", "    rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}", "    rollingUpdate: null",
			}},
		} {
			t.Run(name, func(t *testing.T) {
				got := e.send(t, http.MethodPost, "v1beta1", ns, "", manifest("v1beta1", "x", tc.edits...), map[string]string{"dryRun": "All"})
				if diff := cmp.Diff(tc.want, fields(got.err)); diff != "" {
					t.Errorf("fields (-want +got):\n%s\n%v", diff, got.err)
				}
			})
		}
	})

	t.Run("what cannot be changed", func(t *testing.T) {
		// Without a webhook nothing is filled in: these are the values a set has by default.
		bare := manifest("v1beta1", "bare", "serviceName: web", "", "podManagementPolicy: Parallel", "")
		if got := e.send(t, http.MethodPost, "v1beta1", ns, "", bare, nil); got.err != nil {
			t.Fatal(got.err)
		}
		full := manifest("v1alpha1", "full")
		if got := e.send(t, http.MethodPost, "v1alpha1", ns, "", full, nil); got.err != nil {
			t.Fatal(got.err)
		}
		for name, tc := range map[string]struct {
			set, patch string
			want       []string
		}{
			"the selector":               {set: "full", patch: `{spec: {selector: {matchLabels: {tier: a}}}}`, want: []string{"spec.selector"}},
			"the service":                {set: "full", patch: `{spec: {serviceName: other}}`, want: []string{"spec.serviceName"}},
			"the service taken away":     {set: "full", patch: `{spec: {serviceName: null}}`, want: []string{"spec.serviceName"}},
			"the service added":          {set: "bare", patch: `{spec: {serviceName: other}}`, want: []string{"spec.serviceName"}},
			"an empty service":           {set: "bare", patch: `{spec: {serviceName: ""}}`},
			"the management policy":      {set: "full", patch: `{spec: {podManagementPolicy: OrderedReady}}`, want: []string{"spec.podManagementPolicy"}},
			"the management policy away": {set: "full", patch: `{spec: {podManagementPolicy: null}}`, want: []string{"spec.podManagementPolicy"}},
			"the default written out":    {set: "bare", patch: `{spec: {podManagementPolicy: OrderedReady}}`},
			"the default replaced":       {set: "bare", patch: `{spec: {podManagementPolicy: Parallel}}`, want: []string{"spec.podManagementPolicy"}},
			"replicas":                   {set: "full", patch: `{spec: {replicas: 1}}`},
			"metadata":                   {set: "bare", patch: `{metadata: {labels: {a: b}}}`},
		} {
			for _, version := range []string{"v1beta1", "v1alpha1"} {
				t.Run(version+"/"+name, func(t *testing.T) {
					got := e.send(t, http.MethodPatch, version, ns, tc.set, tc.patch, map[string]string{"dryRun": "All"})
					if diff := cmp.Diff(tc.want, fields(got.err)); diff != "" {
						t.Errorf("fields (-want +got):\n%s\n%v", diff, got.err)
					}
				})
			}
		}
	})

	t.Run("CloneSet", func(t *testing.T) { testCloneSetSchema(t, e.about("clonesets"), ns) })

	e.install(t)
	if err := reach.Check(t.Context(), e.client, e.url, reach.Kinds()...); err != nil {
		t.Fatal(err)
	}

	t.Run("afterwards", func(t *testing.T) {
		// The set has too wide a range and an unreadable template.
		got := e.send(t, http.MethodPatch, "v1beta1", ns, "bad", `{metadata: {labels: {a: b}}}`, nil)
		if got.err != nil {
			t.Errorf("labeling: %v", got.err)
		}
		cmd := e.cluster.Kubectl(t.Context(), "scale", "--namespace="+ns, "asts/bad", "--replicas=2")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("scaling: %v: %s", err, out)
		}
		got = e.send(t, http.MethodPatch, "v1beta1", ns, "bad", `{spec: {replicas: 1}}`, nil)
		if diff := cmp.Diff([]string{"spec.template.spec.terminationGracePeriodSeconds"}, fields(got.err)); diff != "" {
			t.Errorf("replicas beside a template that cannot be read (-want +got):\n%s", diff)
		}
		got = e.send(t, http.MethodPatch, "v1beta1", ns, "bad", `{spec: {template: {spec: {terminationGracePeriodSeconds: 5}}}}`, nil)
		if got.err != nil {
			t.Errorf("mending the template, with the range still too wide: %v", got.err)
		}
		got = e.send(t, http.MethodPatch, "v1beta1", ns, "bad", `{spec: {replicas: 1}}`, nil)
		if got.err != nil {
			t.Errorf("replicas, with the range still too wide: %v", got.err)
		}
		got = e.send(t, http.MethodPatch, "v1beta1", ns, "bad", `{spec: {reserveOrdinals: ["0-1999999999"]}}`, nil)
		if diff := cmp.Diff([]string{"spec.reserveOrdinals[0]"}, fields(got.err)); diff != "" {
			t.Errorf("another range that is too wide (-want +got):\n%s", diff)
		}
		if got = e.send(t, http.MethodPatch, "v1beta1", ns, "bad", `{spec: {reserveOrdinals: ["0-19"]}}`, nil); got.err != nil {
			t.Errorf("mending the range: %v", got.err)
		}

		if err := e.client.Delete(t.Context(), e.get(t, "v1beta1", ns, "bad")); err != nil {
			t.Fatal(err)
		}
		if got := e.send(t, http.MethodPatch, "v1beta1", ns, "bad", `{metadata: {finalizers: null}}`, nil); got.err != nil {
			t.Errorf("removing the finalizer: %v", got.err)
		}
		object := &unstructured.Unstructured{}
		object.SetAPIVersion("apps.kruise.io/v1beta1")
		object.SetKind("StatefulSet")
		if err := e.client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "bad"}, object); err == nil || !strings.Contains(err.Error(), "not found") {
			t.Errorf("after its finalizer is removed: %v", err)
		}
	})
}
