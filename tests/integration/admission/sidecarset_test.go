// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admission_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// sidecarSet is a SidecarSet of a version with more lines in its spec. Lines with an equal
// beginning replace the plain ones.
func sidecarSet(version, name, spec string) string {
	lines := []string{"  selector: {matchLabels: {app: shop}}", "  containers: [{name: agent, image: \"agent:1\"}]"}
	for i, line := range lines {
		key, _, _ := strings.Cut(line, ":")
		if strings.Contains("\n"+spec, "\n"+key+":") {
			lines[i] = ""
		}
	}
	return "apiVersion: apps.kruise.io/" + version + "\nkind: SidecarSet\nmetadata: {name: " + name + "}\nspec:\n" + strings.Join(lines, "\n") + "\n" + spec
}

// testSidecarSet shows refusals of SidecarSets: by the schema, by their own rules, and by
// the API server's rules for pods.
func testSidecarSet(t *testing.T, e *env) {
	t.Run("create", func(t *testing.T) { testCreateSidecarSet(t, e) })
	t.Run("update", func(t *testing.T) { testUpdateSidecarSet(t, e) })
	t.Run("stored before a rule", func(t *testing.T) { testSidecarSetOfBefore(t, e) })
}

func testCreateSidecarSet(t *testing.T, e *env) {
	cases := map[string]struct {
		spec        string
		wantFields  []string
		wantMessage string
	}{
		"the least": {},
		"a mount of its own volume": {spec: `  containers: [{name: agent, image: "agent:1", volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, emptyDir: {}}]`},

		"a mount of a volume that is missing": {
			spec:       `  containers: [{name: agent, image: "agent:1", volumeMounts: [{name: data, mountPath: /data}]}]`,
			wantFields: []string{"spec.containers[0].volumeMounts[0].name"}, wantMessage: `"data"`,
		},
		"a mount of an init container of a volume that is missing": {
			spec:       `  initContainers: [{name: first, image: "i:1", volumeMounts: [{name: data, mountPath: /data}]}]`,
			wantFields: []string{"spec.initContainers[0].volumeMounts[0].name"}, wantMessage: `"data"`,
		},
		"a container without an image":  {spec: `  containers: [{name: agent}]`, wantFields: []string{"spec.containers[0].image"}},
		"a name that is none":           {spec: `  containers: [{name: Agent, image: "agent:1"}]`, wantFields: []string{"spec.containers[0].name"}},
		"a quantity that is none":       {spec: `  containers: [{name: agent, image: "agent:1", resources: {requests: {cpu: "2", memory: 1Gi}, limits: {cpu: "1"}}}]`, wantFields: []string{"spec.containers[0].resources.requests"}},
		"two mounts of one path":        {spec: "  containers: [{name: agent, image: \"agent:1\", volumeMounts: [{name: data, mountPath: /data}, {name: data, mountPath: /data}]}]\n  volumes: [{name: data, emptyDir: {}}]", wantFields: []string{"spec.containers[0].volumeMounts[1].mountPath"}},
		"a volume of no kind that is":   {spec: `  volumes: [{name: data, persistentVolumeClaim: {claimName: ""}}]`, wantFields: []string{"spec.volumes[0].persistentVolumeClaim.claimName"}},
		"no containers":                 {spec: `  containers: []`, wantFields: []string{"spec.containers"}},
		"every pod":                     {spec: `  selector: {}`, wantFields: []string{"spec.selector"}},
		"a native sidecar that updates": {spec: `  initContainers: [{name: native, image: "n:1", restartPolicy: Always}]`, wantFields: []string{"spec.updateStrategy.type"}, wantMessage: "must be NotUpdate"},
		"a revision that does not exist": {
			spec:       `  injectionStrategy: {revision: {customVersion: "1.4"}}`,
			wantFields: []string{"spec.injectionStrategy.revision.customVersion"}, wantMessage: `"1.4"`,
		},
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for name, tc := range cases {
			t.Run(version+"/"+name, func(t *testing.T) {
				got := e.send(t, http.MethodPost, version, "", "", sidecarSet(version, "agents", tc.spec), map[string]string{"dryRun": "All"})
				got.check(t, tc.wantFields, tc.wantMessage)
				if len(got.warnings) > 0 {
					t.Errorf("warnings: %v", got.warnings)
				}
			})
		}
	}
}

func testUpdateSidecarSet(t *testing.T, e *env) {
	for name, spec := range map[string]string{
		"agents": `  containers: [{name: agent, image: "agent:1"}, {name: more, image: "more:1"}]`,
		"others": "  selector: {matchLabels: {app: db}}",
	} {
		if got := e.send(t, http.MethodPost, "v1beta1", "", "", sidecarSet("v1beta1", name, spec), nil); got.err != nil {
			t.Fatal(got.err)
		}
		defer e.remove(t, "", name)
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		e.checkPatches(t, version, "", "agents", map[string][]string{
			`{"spec": {"containers": [{"name": "agent", "image": "agent:2"}, {"name": "more", "image": "more:1"}]}}`:                                    nil,
			`{"spec": {"containers": [{"name": "agent", "image": "agent:1"}]}}`:                                                                         nil,
			`{"spec": {"containers": [{"name": "agent", "image": "agent:1"}, {"name": "more", "image": "more:1"}, {"name": "new", "image": "new:1"}]}}`: {"spec.containers[2].name"},
			`{"spec": {"updateStrategy": {"partition": "half"}}}`:                                                                                       {"spec.updateStrategy.partition"},
			`{"spec": {"selector": {"matchLabels": {"app": "db"}}}}`:                                                                                    {"spec.containers[0].name"}, // others has one of this name for these pods
		})
	}
}

// testSidecarSetOfBefore stores, without our webhook, a set our rules refuse. Any change
// without a new fault passes.
func testSidecarSetOfBefore(t *testing.T, e *env) {
	const wrong = `  selector: {matchLabels: {app: before}}
  containers: [{name: agent, image: "agent:1", volumeMounts: [{name: data, mountPath: /data}]}]
  updateStrategy: {partition: half}`
	e.removeWebhooks(t)
	create := func(name string, parameters map[string]string) error {
		return e.send(t, http.MethodPost, "v1beta1", "", "", sidecarSet("v1beta1", name, wrong), parameters).err
	}
	// The API server notices their removal, and their return, a moment later.
	g := NewWithT(t)
	g.Eventually(func() error { return create("before", nil) }).WithTimeout(30 * time.Second).Should(Succeed())
	defer e.remove(t, "", "before")
	e.install(t)
	g.Eventually(func() error { return create("after", map[string]string{"dryRun": "All"}) }).WithTimeout(30 * time.Second).Should(MatchError(ContainSubstring("spec.updateStrategy.partition")))

	const oneMore = `{"spec": {"containers": [{"name": "agent", "image": "agent:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "logs", "mountPath": "/logs"}]}]}}`
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		e.checkPatches(t, version, "", "before", map[string][]string{
			`{"metadata": {"labels": {"team": "a"}}}`:              nil,
			`{"spec": {"updateStrategy": {"paused": true}}}`:       nil,
			`{"spec": {"updateStrategy": {"partition": "third"}}}`: {"spec.updateStrategy.partition"},
			`{"spec": {"injectionStrategy": {"paused": true}}}`:    nil,
			oneMore: {"spec.containers[0].volumeMounts[1].name"},
		})
	}
}
