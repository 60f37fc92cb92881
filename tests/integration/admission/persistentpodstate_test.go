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

// podState is a PersistentPodState of a version; edits replace one text by another.
func podState(version string, edits ...string) string {
	text := environment.Edited(`
apiVersion: apps.kruise.io/v1beta1
kind: PersistentPodState
metadata: {name: db}
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
  requiredPersistentTopology: {keys: [topology.kubernetes.io/zone]}
  preferredPersistentTopology: [{weight: 100, preference: {keys: [kubernetes.io/hostname]}}]
  persistentPodAnnotations: [{key: example.com/ip}]
`, edits...)
	if version == "v1alpha1" {
		text = strings.NewReplacer("v1beta1", "v1alpha1", "keys:", "nodeTopologyKeys:").Replace(text)
	}
	return text
}

// testPersistentPodState goes through the table of refusals of the specification, in both versions.
func testPersistentPodState(t *testing.T, e *env) {
	ns := e.namespace(t)
	taken := podState("v1beta1", "{name: db}", "{name: first}", "StatefulSet, name: db", "StatefulSet, name: taken")
	if got := e.send(t, http.MethodPost, "v1beta1", ns, "", taken, nil); got.err != nil {
		t.Fatal(got.err)
	}
	const required, preferred = "  requiredPersistentTopology: {keys: [topology.kubernetes.io/zone]}\n", "  preferredPersistentTopology: [{weight: 100, preference: {keys: [kubernetes.io/hostname]}}]\n"
	const target, ofRequired, ofPreferred = "spec.targetRef", "spec.requiredPersistentTopology.keys", "spec.preferredPersistentTopology[0].preference.keys"
	const weight = "spec.preferredPersistentTopology[0].weight"
	for what, tc := range map[string]struct {
		edits       []string
		wantFields  []string
		wantMessage string
	}{
		"all is well":                   {},
		"only required":                 {edits: []string{preferred, ""}},
		"only preferred":                {edits: []string{required, ""}},
		"neither":                       {edits: []string{required, "", preferred, ""}, wantFields: []string{"spec"}, wantMessage: "must have requiredPersistentTopology or preferredPersistentTopology"},
		"no version of the target":      {edits: []string{"apiVersion: apps/v1,", `apiVersion: "",`}, wantFields: []string{target + ".apiVersion"}},
		"no kind":                       {edits: []string{"kind: StatefulSet,", `kind: "",`}, wantFields: []string{target + ".kind"}},
		"no name":                       {edits: []string{"StatefulSet, name: db", `StatefulSet, name: ""`}, wantFields: []string{target + ".name"}},
		"one of ours":                   {edits: []string{"apiVersion: apps/v1,", "apiVersion: apps.kruise.io/v1beta1,"}},
		"an unsupported kind":           {edits: []string{"kind: StatefulSet,", "kind: Deployment,"}, wantFields: []string{target}, wantMessage: "must be a StatefulSet of apps or apps.kruise.io"},
		"a workload with another":       {edits: []string{"StatefulSet, name: db", "StatefulSet, name: taken"}, wantFields: []string{target}, wantMessage: "is the target of PersistentPodState first already"},
		"a failure policy that is none": {edits: []string{"{name: db}", "{name: db, annotations: {operator.kruise.io/injection-failure-policy: never}}"}, wantFields: []string{"metadata.annotations[operator.kruise.io/injection-failure-policy]"}},
		"a weight of none":              {edits: []string{"weight: 100", "weight: 0"}, wantFields: []string{weight}},
		"a weight above 100":            {edits: []string{"weight: 100", "weight: 101"}, wantFields: []string{weight}},
		"no keys":                       {edits: []string{"[topology.kubernetes.io/zone]", "[]"}, wantFields: []string{ofRequired}},
		"a key that is none":            {edits: []string{"[kubernetes.io/hostname]", "[a b]"}, wantFields: []string{ofPreferred + "[0]"}},
		"a key twice":                   {edits: []string{"[kubernetes.io/hostname]", "[a, a]"}, wantFields: []string{ofPreferred + "[1]"}},
		"a policy that does not exist":  {edits: []string{"  persistentPodAnnotations", "  persistentPodStateRetentionPolicy: Never\n  persistentPodAnnotations"}, wantFields: []string{"spec.persistentPodStateRetentionPolicy"}},
	} {
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			t.Run(what+" in "+version, func(t *testing.T) {
				var want []string
				for _, field := range tc.wantFields {
					if version == "v1alpha1" {
						field = strings.Replace(field, ".keys", ".nodeTopologyKeys", 1)
					}
					want = append(want, field)
				}
				e.send(t, http.MethodPost, version, ns, "", podState(version, tc.edits...), map[string]string{"dryRun": "All"}).check(t, want, tc.wantMessage)
			})
		}
	}
	if got := e.send(t, http.MethodPost, "v1alpha1", ns, "", podState("v1alpha1"), nil); got.err != nil {
		t.Fatal(got.err)
	}
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		e.checkPatches(t, version, ns, "db", map[string][]string{
			`{"spec":{"targetRef":{"name":"other"}}}`:                      {target},
			`{"spec":{"targetRef":{"apiVersion":"apps/v2"}}}`:              {target},
			`{"spec":{"persistentPodStateRetentionPolicy":"WhenDeleted"}}`: nil,
		})
	}
	e.checkColumns(t, ns, "NAME TARGET AGE STALLED", "persistentpodstates.v1beta1.apps.kruise.io", "persistentpodstates.v1alpha1.apps.kruise.io")
}
