// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

// object reads YAML as a client reads JSON.
func object(t testing.TB, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
	out := map[string]any{}
	if err := kjson.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func copied(t testing.TB, o map[string]any) map[string]any {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return object(t, string(data))
}

// set is a SidecarSet; body is its spec, indented by nothing.
func set(t testing.TB, name, body string, annotations ...string) *sidecar.Set {
	t.Helper()
	o := object(t, "metadata: {name: "+name+", creationTimestamp: '2026-05-04T08:00:00Z'}\nstatus: {latestRevision: "+name+"-1}\n")
	o["spec"] = object(t, body)
	all := map[string]any{shared.AnnotationSidecarSetHash: "hash-" + name, shared.AnnotationSidecarSetHashWithoutImage: "bare-" + name}
	for i := 0; i+1 < len(annotations); i += 2 {
		all[annotations[i]] = annotations[i+1]
	}
	o["metadata"].(map[string]any)["annotations"] = all
	s, err := sidecar.ParseSet(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// injected is the pod after all sets, in this order, each through its stored form.
func injected(t testing.TB, pod map[string]any, sets []*sidecar.Set, order ...int) (map[string]any, error) {
	t.Helper()
	pod = copied(t, pod)
	if order == nil {
		for i := range sets {
			order = append(order, i)
		}
	}
	for _, i := range order {
		if sets[i].Paused {
			continue
		}
		compiled, err := sidecar.Compile(sets[i], sets)
		if err != nil {
			t.Fatal(err)
		}
		_, data, err := compiled.Encode()
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := sidecar.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		labels, _ := pod["metadata"].(map[string]any)["labels"].(map[string]any)
		if !sets[i].Match.Selects(texts(labels), namespaceOf) {
			continue
		}
		if _, err := decoded.Inject(sidecar.Pod{Object: pod, Namespace: namespaceOf, Draw: 50}); err != nil {
			return nil, err
		}
		pod = copied(t, pod)
	}
	return pod, nil
}

var namespaceOf = map[string]string{"kubernetes.io/metadata.name": "shop", "team": "a"}

func texts(in map[string]any) map[string]string {
	out := map[string]string{}
	for k, v := range in {
		out[k], _ = v.(string)
	}
	return out
}

// names returns the names in a list of the pod's spec.
func names(pod map[string]any, field string) string {
	list, _ := pod["spec"].(map[string]any)[field].([]any)
	var all []string
	for _, one := range list {
		name, _ := one.(map[string]any)["name"].(string)
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

func container(t testing.TB, pod map[string]any, name string) map[string]any {
	t.Helper()
	for _, field := range []string{"containers", "initContainers"} {
		list, _ := pod["spec"].(map[string]any)[field].([]any)
		for _, one := range list {
			if one.(map[string]any)["name"] == name {
				return one.(map[string]any)
			}
		}
	}
	t.Fatalf("the pod has no container %s", name)
	return nil
}

func annotation(pod map[string]any, key string) string {
	all, _ := pod["metadata"].(map[string]any)["annotations"].(map[string]any)
	text, _ := all[key].(string)
	return text
}

const shopPod = `
metadata: {generateName: shop-, labels: {app: shop}}
spec:
  containers: [{name: web, image: web}, {name: cache, image: cache}]
`

func TestInjectedPods(t *testing.T) {
	t.Run("two sidecars around the containers of the pod", func(t *testing.T) {
		log := set(t, "log", `
selector: {matchLabels: {app: shop}}
containers:
- {name: shipper, image: s, podInjectPolicy: AfterAppContainer}
- {name: agent, image: a, podInjectPolicy: BeforeAppContainer}
`)
		pod, err := injected(t, object(t, shopPod), []*sidecar.Set{log})
		if err != nil {
			t.Fatal(err)
		}
		if got := names(pod, "containers"); got != "agent web cache shipper" {
			t.Errorf("containers: %s", got)
		}
		if got := annotation(pod, shared.AnnotationSidecarSetInjectedList); got != "log" {
			t.Errorf("injected list: %s", got)
		}
		want := `{"log":{"updateTimestamp":"2026-05-04T08:00:00Z","hash":"hash-log","sidecarSetName":"log","sidecarList":["agent","shipper"],"controllerRevision":"log-1"}}`
		if got := annotation(pod, shared.AnnotationSidecarSetHash); got != want {
			t.Errorf("hash: %s", got)
		}
		for _, name := range []string{"agent", "shipper"} {
			if diff := cmp.Diff([]any{map[string]any{"name": "IS_INJECTED", "value": "true"}}, container(t, pod, name)["env"]); diff != "" {
				t.Errorf("env of %s: %s", name, diff)
			}
		}
	})
	t.Run("a hot upgrade pair", func(t *testing.T) {
		mesh := set(t, "mesh", `
selector: {matchLabels: {app: shop}}
containers:
- {name: mesh, image: "mesh:v1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "idle:1"}}
`)
		pod, err := injected(t, object(t, shopPod), []*sidecar.Set{mesh})
		if err != nil {
			t.Fatal(err)
		}
		if got := names(pod, "containers"); got != "mesh-1 mesh-2 web cache" {
			t.Errorf("containers: %s", got)
		}
		if a, b := container(t, pod, "mesh-1")["image"], container(t, pod, "mesh-2")["image"]; a != "mesh:v1" || b != "idle:1" {
			t.Errorf("images: %v, %v", a, b)
		}
		for key, want := range map[string]string{
			"version.sidecarset.kruise.io/mesh-1": "1", "versionalt.sidecarset.kruise.io/mesh-1": "0",
			"version.sidecarset.kruise.io/mesh-2": "0", "versionalt.sidecarset.kruise.io/mesh-2": "1",
			shared.AnnotationSidecarSetWorkingContainer: `{"mesh":"mesh-1"}`,
		} {
			if got := annotation(pod, key); got != want {
				t.Errorf("%s: %s", key, got)
			}
		}
	})
	t.Run("resources of the pod's containers", func(t *testing.T) {
		for regex, want := range map[string]map[string]any{
			"":      {"requests": map[string]any{"cpu": "600m"}},
			"^app$": {"limits": map[string]any{"cpu": "200m"}, "requests": map[string]any{"cpu": "500m"}},
		} {
			s := set(t, "res", `
selector: {matchLabels: {app: shop}}
containers:
- name: agent
  image: a
  resourcesPolicy:
    targetContainersMode: sum
    targetContainersNameRegex: "`+regex+`"
    resourcesExpr: {limits: {cpu: "max(cpu*10%, 100m)"}, requests: {cpu: "cpu*50%"}}
`)
			pod, err := injected(t, object(t, resourcesPod), []*sidecar.Set{s})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, container(t, pod, "agent")["resources"]); diff != "" {
				t.Errorf("regex %q: %s", regex, diff)
			}
		}
		s := set(t, "res", `
selector: {matchLabels: {app: shop}}
containers:
- {name: agent, image: a, resourcesPolicy: {targetContainersMode: sum, targetContainersNameRegex: ^db$, resourcesExpr: {requests: {cpu: cpu}}}}
`)
		if _, err := injected(t, object(t, resourcesPod), []*sidecar.Set{s}); err == nil || !strings.Contains(err.Error(), "SidecarSet res: container agent") {
			t.Errorf("a pod without a target is answered with %v", err)
		}
	})
}

const resourcesPod = `
metadata: {labels: {app: shop}}
spec:
  containers:
  - {name: app, image: a, resources: {limits: {cpu: "2", memory: 4Gi}, requests: {cpu: 1}}}
  - {name: cache, image: c, resources: {requests: {cpu: 200m}}}
`

// injectionStrategy.policy and the update strategy choose between the pinned and the latest revision.
func TestRevisionPinning(t *testing.T) {
	const pinned, latest = "a", "b"
	strategy := func(policy, update string) *sidecar.Set {
		s := set(t, "log", `
selector: {matchLabels: {app: shop}}
containers: [{name: agent, image: b}]
injectionStrategy: {revision: {customVersion: "1.4", policy: `+policy+`}}
updateStrategy: `+update)
		p, err := sidecar.ParseRevision(object(t, `spec: {containers: [{name: agent, image: a}], volumes: null}`))
		if err != nil {
			t.Fatal(err)
		}
		p.Hash, p.Revision = "old", "log-0"
		s.Pinned = p
		return s
	}
	cases := map[string]struct {
		policy, update string
		draw           int32
		want           string
	}{
		"always":                                     {"Always", `{partition: 10%}`, 99, pinned},
		"partial, paused":                            {"Partial", `{paused: true, partition: 90%}`, 99, pinned},
		"partial, no partition":                      {"Partial", `{}`, 0, latest},
		"partial, partition as a number":             {"Partial", `{partition: 3}`, 0, latest},
		"partial, 90%, drawn":                        {"Partial", `{partition: 90%}`, 89, pinned},
		"partial, 90%, not drawn":                    {"Partial", `{partition: 90%}`, 90, latest},
		"partial, 0%":                                {"Partial", `{partition: 0%}`, 0, latest},
		"partial, 100%":                              {"Partial", `{partition: 100%}`, 99, pinned},
		"partial, selector matches":                  {"Partial", `{selector: {matchLabels: {app: shop}}}`, 0, latest},
		"partial, selector does not":                 {"Partial", `{selector: {matchLabels: {app: other}}}`, 0, pinned},
		"partial, selector does not match, with 10%": {"Partial", `{partition: 10%, selector: {matchLabels: {app: other}}}`, 99, pinned},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := strategy(tc.policy, tc.update)
			compiled, err := sidecar.Compile(s, []*sidecar.Set{s})
			if err != nil {
				t.Fatal(err)
			}
			pod := object(t, shopPod)
			if _, err := compiled.Inject(sidecar.Pod{Object: pod, Draw: tc.draw}); err != nil {
				t.Fatal(err)
			}
			if got := container(t, pod, "agent")["image"]; got != tc.want {
				t.Errorf("injected %v", got)
			}
			again := copied(t, pod)
			if _, err := compiled.Inject(sidecar.Pod{Object: again, Draw: 99 - tc.draw}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(pod, again); diff != "" {
				t.Errorf("another draw changes a pod that has it already: %s", diff)
			}
		})
	}
	s := strategy("Always", "{}")
	s.Pinned = nil
	if _, err := sidecar.Compile(s, nil); err == nil {
		t.Error("a revision that is not there is not missed")
	}
}

func TestInject(t *testing.T) {
	const head = "selector: {matchLabels: {app: shop}}\n"
	cases := map[string]struct {
		pod   string
		specs []string
		check func(t *testing.T, pod map[string]any)
	}{
		"a container of the same name is replaced at its place": {
			specs: []string{head + `containers: [{name: cache, image: mine}]`},
			check: func(t *testing.T, pod map[string]any) {
				if got := names(pod, "containers"); got != "web cache" || container(t, pod, "cache")["image"] != "mine" {
					t.Errorf("containers: %s", got)
				}
			},
		},
		"several sets stand in the order of their names, each in the order of its spec": {
			specs: []string{
				head + `containers: [{name: z, image: a}, {name: a, image: a}, {name: later, image: a, podInjectPolicy: AfterAppContainer}]`,
				head + `containers: [{name: b, image: a}, {name: early, image: a, podInjectPolicy: AfterAppContainer}]`,
			},
			check: func(t *testing.T, pod map[string]any) {
				if got := names(pod, "containers"); got != "z a b web cache later early" {
					t.Errorf("containers: %s", got)
				}
			},
		},
		"init containers are sorted by name over all sets": {
			pod: `
metadata: {labels: {app: shop}}
spec: {initContainers: [{name: own, image: o}], containers: [{name: web, image: w}]}`,
			specs: []string{
				head + `initContainers: [{name: z, image: i}, {name: b, image: i}, {name: q, image: i, podInjectPolicy: BeforeAppContainer}]`,
				head + `initContainers: [{name: x, image: i, restartPolicy: Always}, {name: p, image: i, podInjectPolicy: BeforeAppContainer}]`,
			},
			check: func(t *testing.T, pod map[string]any) {
				if got := names(pod, "initContainers"); got != "p q own b x z" {
					t.Errorf("init containers: %s", got)
				}
				if got := annotation(pod, shared.AnnotationSidecarSetHash); !strings.Contains(got, `"sidecarList":["x"]`) || !strings.Contains(got, `"sidecarList":[]`) {
					t.Errorf("native sidecars are in the list, plain init containers are not: %s", got)
				}
			},
		},
		"a native sidecar can be a pair": {
			specs: []string{head + `
initContainers: [{name: mesh, image: "mesh:v1", restartPolicy: Always, upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "idle:1"}}]`},
			check: func(t *testing.T, pod map[string]any) {
				if got := names(pod, "initContainers"); got != "mesh-1 mesh-2" || container(t, pod, "mesh-2")["image"] != "idle:1" {
					t.Errorf("init containers: %s", got)
				}
				if got := annotation(pod, shared.AnnotationSidecarSetWorkingContainer); got != `{"mesh":"mesh-1"}` {
					t.Errorf("working: %s", got)
				}
				if got := annotation(pod, shared.AnnotationSidecarSetHash); !strings.Contains(got, `"sidecarList":["mesh"]`) {
					t.Errorf("list: %s", got)
				}
			},
		},
		"a set does not say what a pod has from sets": {
			specs: []string{head + `
containers: [{name: a, image: a}]
patchPodMetadata: [{annotations: {kruise.io/sidecarset-hash-without-image: x, kruise.io/sidecarset-inplace-update-state: x, mine: own}, patchPolicy: Overwrite}]`},
			check: func(t *testing.T, pod map[string]any) {
				if got := annotation(pod, "mine") + annotation(pod, "kruise.io/sidecarset-inplace-update-state"); got != "own" {
					t.Errorf("annotations: %s", got)
				}
			},
		},
		"only used volumes come, and the pod's own win": {
			pod: `
metadata: {labels: {app: shop}}
spec: {volumes: [{name: mine, hostPath: {path: /x}}], containers: [{name: web, image: w}]}`,
			specs: []string{head + `
containers: [{name: a, image: a, volumeMounts: [{name: mine, mountPath: /m}, {name: spool, mountPath: /s}]}]
volumes: [{name: mine, emptyDir: {}}, {name: spool, emptyDir: {}}, {name: unused, emptyDir: {}}]`},
			check: func(t *testing.T, pod map[string]any) {
				if got := names(pod, "volumes"); got != "mine spool" {
					t.Errorf("volumes: %s", got)
				}
				if first := pod["spec"].(map[string]any)["volumes"].([]any)[0].(map[string]any); first["hostPath"] == nil {
					t.Error("the pod's volume was replaced")
				}
			},
		},
		"volumes and secrets of several sets are there once": {
			specs: []string{
				head + `
containers: [{name: a, image: a, volumeMounts: [{name: z, mountPath: /z}, {name: both, mountPath: /s}]}]
imagePullSecrets: [{name: s2}, {name: s1}]
volumes: [{name: z, emptyDir: {}}, {name: both, emptyDir: {}}]`,
				head + `
containers: [{name: b, image: a, volumeMounts: [{name: b, mountPath: /z}, {name: both, mountPath: /s}]}]
imagePullSecrets: [{name: s1}, {name: s0}]
volumes: [{name: b, emptyDir: {}}, {name: both, emptyDir: {}}]`,
			},
			check: func(t *testing.T, pod map[string]any) {
				if got := names(pod, "volumes"); got != "b both z" {
					t.Errorf("volumes: %s", got)
				}
				if got := names(pod, "imagePullSecrets"); got != "s0 s1 s2" {
					t.Errorf("secrets: %s", got)
				}
			},
		},
		"environment is copied by name, by label and by annotation; its own wins": {
			pod: `
metadata: {labels: {app: shop, from: web}, annotations: {main: cache}}
spec:
  containers:
  - {name: web, image: w, env: [{name: A, value: web-a}, {name: B, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {name: OWN, value: theirs}]}
  - {name: cache, image: c, env: [{name: C, value: cache-c}, {name: A, value: cache-a}]}
  initContainers:
  - {name: setup, image: s, env: [{name: E, value: setup-e}]}
  - {name: mesh, image: m, restartPolicy: Always, env: [{name: D, value: mesh-d}]}`,
			specs: []string{head + `
containers:
- name: agent
  image: a
  env: [{name: OWN, value: mine}]
  transferEnv:
  - {sourceContainerName: mesh, envName: D}
  - {sourceContainerName: setup, envName: E}
  - {sourceContainerName: nobody, envName: A}
  - {sourceContainerName: cache, sourceContainerNameFrom: {fieldRef: {apiVersion: v1, fieldPath: "metadata.labels['from']"}}, envName: B, envNames: [A, OWN, missing]}
  - {sourceContainerNameFrom: {fieldRef: {apiVersion: v1, fieldPath: "metadata.annotations['main']"}}, envNames: [C, A]}
  - {sourceContainerNameFrom: {fieldRef: {apiVersion: v1, fieldPath: "metadata.labels['absent']"}}, envNames: [A]}`},
			check: func(t *testing.T, pod map[string]any) {
				want := []any{
					map[string]any{"name": "OWN", "value": "mine"}, map[string]any{"name": "IS_INJECTED", "value": "true"},
					map[string]any{"name": "D", "value": "mesh-d"}, map[string]any{"name": "A", "value": "web-a"},
					map[string]any{"name": "B", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "status.podIP"}}},
					map[string]any{"name": "C", "value": "cache-c"},
				}
				if diff := cmp.Diff(want, container(t, pod, "agent")["env"]); diff != "" {
					t.Error(diff)
				}
			},
		},
		"mounts and devices are shared but for paths in use, with the variables of subPathExpr": {
			pod: `
metadata: {labels: {app: shop}}
spec:
  containers:
  - name: web
    image: w
    env: [{name: POD, value: p}, {name: OTHER, value: o}]
    volumeMounts: [{name: a, mountPath: /a, subPathExpr: "$(POD)/x"}, {name: b, mountPath: /own}, {name: d, mountPath: /dev/b}]
    volumeDevices: [{name: raw, devicePath: /dev/a}, {name: raw2, devicePath: /own}]
  - {name: cache, image: c, volumeMounts: [{name: other, mountPath: /a}], volumeDevices: [{name: z, devicePath: /dev/b}]}`,
			specs: []string{head + `
containers:
- name: agent
  image: a
  shareVolumePolicy: {type: enabled}
  shareVolumeDevicePolicy: {type: enabled}
  volumeMounts: [{name: o, mountPath: /own}]
- {name: plain, image: a, shareVolumePolicy: {type: disabled}}`},
			check: func(t *testing.T, pod map[string]any) {
				agent := container(t, pod, "agent")
				mounts := []any{
					map[string]any{"name": "o", "mountPath": "/own"}, map[string]any{"name": "a", "mountPath": "/a", "subPathExpr": "$(POD)/x"},
					map[string]any{"name": "d", "mountPath": "/dev/b"},
				}
				if diff := cmp.Diff(mounts, agent["volumeMounts"]); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff([]any{map[string]any{"name": "raw", "devicePath": "/dev/a"}}, agent["volumeDevices"]); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff([]any{map[string]any{"name": "IS_INJECTED", "value": "true"}, map[string]any{"name": "POD", "value": "p"}}, agent["env"]); diff != "" {
					t.Error(diff)
				}
				if container(t, pod, "plain")["volumeMounts"] != nil {
					t.Error("a sidecar that shares nothing has mounts")
				}
			},
		},
		"nothing is shared from init containers, and nothing from sidecars, of whichever set": {
			pod: `
metadata: {labels: {app: shop}}
spec:
  initContainers: [{name: own, image: i, volumeMounts: [{name: a, mountPath: /init}], volumeDevices: [{name: raw, devicePath: /dev/init}], env: [{name: A, value: init}]}]
  containers: [{name: web, image: w, volumeMounts: [{name: a, mountPath: /web}], volumeDevices: [{name: raw, devicePath: /dev/web}]}]`,
			specs: []string{
				head + `
containers:
- {name: agent, image: a, shareVolumePolicy: {type: enabled}, shareVolumeDevicePolicy: {type: enabled}, transferEnv: [{sourceContainerName: own, envName: A}, {sourceContainerName: tracer, envName: A}]}`,
				head + `
containers:
- name: tracer
  image: t
  podInjectPolicy: AfterAppContainer
  env: [{name: A, value: tracer}]
  volumeMounts: [{name: spool, mountPath: /spool}]
  volumeDevices: [{name: disk, devicePath: /dev/spool}]
volumes: [{name: spool, emptyDir: {}}, {name: disk, emptyDir: {}}]`,
			},
			check: func(t *testing.T, pod map[string]any) {
				agent := container(t, pod, "agent")
				want := map[string]any{
					"volumeMounts":  []any{map[string]any{"name": "a", "mountPath": "/web"}},
					"volumeDevices": []any{map[string]any{"name": "raw", "devicePath": "/dev/web"}},
					"env":           []any{map[string]any{"name": "IS_INJECTED", "value": "true"}},
				}
				for field, all := range want {
					if diff := cmp.Diff(all, agent[field]); diff != "" {
						t.Errorf("%s: %s", field, diff)
					}
				}
			},
		},
		"a mount without a volume stays: the pod may have it, or is refused by the API server": {
			specs: []string{head + `containers: [{name: a, image: a, volumeMounts: [{name: nowhere, mountPath: /m}]}]`},
			check: func(t *testing.T, pod map[string]any) {
				if got := names(pod, "volumes"); got != "" || container(t, pod, "a")["volumeMounts"] == nil {
					t.Errorf("volumes: %s", got)
				}
			},
		},
		"several pairs stand beside a sidecar that is none, of one set and of two": {
			specs: []string{
				head + `
containers:
- {name: mesh, image: "mesh:v1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "idle:1"}}
- {name: agent, image: a}
- {name: dns, image: "dns:v1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "idle:2"}}`,
				head + `containers: [{name: proxy, image: "proxy:v1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "idle:1"}}]`,
			},
			check: func(t *testing.T, pod map[string]any) {
				if got := names(pod, "containers"); got != "mesh-1 mesh-2 agent dns-1 dns-2 proxy-1 proxy-2 web cache" || container(t, pod, "dns-2")["image"] != "idle:2" {
					t.Errorf("containers: %s", got)
				}
				if got := annotation(pod, shared.AnnotationSidecarSetWorkingContainer); got != `{"dns":"dns-1","mesh":"mesh-1","proxy":"proxy-1"}` {
					t.Errorf("working: %s", got)
				}
				for _, name := range []string{"mesh", "dns", "proxy"} {
					for key, want := range map[string]string{"version": "1", "versionalt": "0"} {
						if got := annotation(pod, key+".sidecarset.kruise.io/"+name+"-1"); got != want {
							t.Errorf("%s of %s-1: %s", key, name, got)
						}
					}
				}
			},
		},
		"fields that this version does not know survive": {
			specs: []string{head + `containers: [{name: a, image: a, futureField: {deep: [1, 9007199254740993]}}]`},
			check: func(t *testing.T, pod map[string]any) {
				if diff := cmp.Diff(map[string]any{"deep": []any{int64(1), int64(9007199254740993)}}, container(t, pod, "a")["futureField"]); diff != "" {
					t.Error(diff)
				}
			},
		},
		"annotations are retained, overwritten and merged": {
			pod: `
metadata: {labels: {app: shop}, annotations: {r: pod, o: pod, m: '{"a":1,"b":{"c":2}}'}}
spec: {containers: [{name: web, image: w}]}`,
			specs: []string{head + `
containers: [{name: a, image: a}]
patchPodMetadata:
- {annotations: {r: set, r2: set}, patchPolicy: Retain}
- {annotations: {o: set}, patchPolicy: Overwrite}
- {annotations: {m: '{"a":null,"b":{"d":3}}', m2: '{"x": 1}'}, patchPolicy: MergePatchJson}`},
			check: func(t *testing.T, pod map[string]any) {
				for key, want := range map[string]string{"r": "pod", "r2": "set", "o": "set", "m": `{"b":{"c":2,"d":3}}`, "m2": `{"x": 1}`} {
					if got := annotation(pod, key); got != want {
						t.Errorf("%s: %s", key, got)
					}
				}
			},
		},
		"what the pod says of a set that came a moment ago stays, and of one that does not inject goes": {
			pod: `
metadata:
  labels: {app: shop}
  annotations:
    kruise.io/sidecarset-hash: '{"new":{"hash":"h","sidecarSetName":"new","sidecarList":["x"]},"old":"abc","s1":{"hash":"h","sidecarSetName":"s1","sidecarList":["y"]}}'
    kruise.io/sidecarset-injected-list: s1,new
spec: {containers: [{name: web, image: w}]}`,
			specs: []string{head + `containers: [{name: a, image: a}]`, "selector: {matchLabels: {app: shop, tier: db}}\ncontainers: [{name: 'y', image: 'y'}]"},
			check: func(t *testing.T, pod map[string]any) {
				want := `{"new":{"hash":"h","sidecarSetName":"new","sidecarList":["x"]},` +
					`"s0":{"updateTimestamp":"2026-05-04T08:00:00Z","hash":"hash-s0","sidecarSetName":"s0","sidecarList":["a"],"controllerRevision":"s0-1"}}`
				if got := annotation(pod, shared.AnnotationSidecarSetHash); got != want {
					t.Error(got)
				}
				if got := annotation(pod, shared.AnnotationSidecarSetInjectedList); got != "new,s0" {
					t.Error(got)
				}
			},
		},
		"mirror pods are left alone": {
			pod: `
metadata: {labels: {app: shop}, annotations: {kubernetes.io/config.mirror: x}}
spec: {containers: [{name: web, image: w}]}`,
			specs: []string{head + `containers: [{name: a, image: a}]`},
			check: func(t *testing.T, pod map[string]any) {
				if got := names(pod, "containers"); got != "web" {
					t.Error(got)
				}
			},
		},
		"a pod that says that it is injected, and is not, is injected": {
			pod: `
metadata: {labels: {app: shop}, annotations: {kruise.io/sidecarset-injected-list: s0, kruise.io/sidecarset-hash: '{"s0":{"hash":"hash-s0","sidecarSetName":"s0","sidecarList":["a"]}}'}}
spec: {containers: [{name: web, image: w}]}`,
			specs: []string{head + `containers: [{name: a, image: a}]`},
			check: func(t *testing.T, pod map[string]any) {
				if got := names(pod, "containers"); got != "a web" {
					t.Error(got)
				}
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.pod == "" {
				tc.pod = shopPod
			}
			var sets []*sidecar.Set
			for i, spec := range tc.specs {
				sets = append(sets, set(t, "s"+string(rune('0'+i)), spec))
			}
			pod, err := injected(t, object(t, tc.pod), sets)
			if err != nil {
				t.Fatal(err)
			}
			tc.check(t, pod)
			sameInEveryOrder(t, object(t, tc.pod), sets, pod)
		})
	}
}

// A pod comes a second time: others' changes to its sidecars stay. Only a pair
// needs its original images, since a copy of an upgraded pod has them swapped.
func TestWhatOthersChangedInASidecarStays(t *testing.T) {
	s := set(t, "log", `
selector: {matchLabels: {app: shop}}
initContainers: [{name: setup, image: "setup:v1"}]
containers:
- {name: agent, image: "agent:v1"}
- {name: mesh, image: "mesh:v1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "idle:1"}}`)
	sets := []*sidecar.Set{s}
	pod, err := injected(t, object(t, shopPod), sets)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for name, image := range map[string]string{"setup": "mirror/setup:v1", "agent": "mirror/agent:v1"} {
		container(t, pod, name)["image"], want[name] = image, image
	}
	container(t, pod, "mesh-1")["image"], container(t, pod, "mesh-2")["image"] = "idle:1", "mesh:v1"
	want["mesh-1"], want["mesh-2"] = "mesh:v1", "idle:1"
	images := func(pod map[string]any, of map[string]string) {
		t.Helper()
		again, err := injected(t, pod, sets)
		if err != nil {
			t.Fatal(err)
		}
		for name, image := range of {
			if got := container(t, again, name)["image"]; got != image {
				t.Errorf("%s has %v, want %s", name, got, image)
			}
		}
	}
	images(pod, want)
	// Of another revision, nothing stays.
	annotations, _ := pod["metadata"].(map[string]any)["annotations"].(map[string]any)
	annotations[shared.AnnotationSidecarSetHash] = strings.ReplaceAll(annotation(pod, shared.AnnotationSidecarSetHash), "hash-log", "hash-old")
	images(pod, map[string]string{"setup": "setup:v1", "agent": "agent:v1", "mesh-1": "mesh:v1", "mesh-2": "idle:1"})
}

// sameInEveryOrder asks the sets in other orders, and all of them twice.
func sameInEveryOrder(t *testing.T, pod map[string]any, sets []*sidecar.Set, want map[string]any) {
	t.Helper()
	for range 6 {
		order := rand.Perm(len(sets))
		got, err := injected(t, pod, sets, append(order, order...)...)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("in the order %v twice: %s", order, diff)
		}
	}
}

func TestCanaryReplacesItsBase(t *testing.T) {
	const head = "selector: {matchLabels: {app: shop}}\n"
	base := set(t, "base", head+`containers: [{name: agent, image: base}]`)
	canary := set(t, "canary", "selector: {matchLabels: {app: shop, canary: yes-please}}\ncontainers: [{name: agent, image: canary}]",
		shared.AnnotationSidecarSetCanary, "true", shared.AnnotationSidecarSetBase, "base")
	other := set(t, "other", head+`containers: [{name: other, image: o}]`)
	chosen := object(t, `{metadata: {labels: {app: shop, canary: yes-please}}, spec: {containers: [{name: web, image: w}]}}`)
	for name, tc := range map[string]struct {
		pod                    map[string]any
		pauseCanary, pauseBase bool
		image, after           string
	}{
		"a pod of the canary":                       {pod: chosen, image: "canary", after: "canary,other"},
		"a pod of the base alone":                   {pod: object(t, shopPod), image: "base", after: "base,other"},
		"a pod of the canary while that is on hold": {pod: chosen, pauseCanary: true, image: "base", after: "base,other"},
		"a pod of the canary of a base on hold":     {pod: chosen, pauseBase: true, image: "canary", after: "canary,other"},
		"a pod of a base on hold":                   {pod: object(t, shopPod), pauseBase: true, after: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			paused, on := *canary, *base
			paused.Paused, on.Paused = tc.pauseCanary, tc.pauseBase
			sets := []*sidecar.Set{&on, &paused, other}
			pod, err := injected(t, tc.pod, sets)
			if err != nil {
				t.Fatal(err)
			}
			if got := annotation(pod, shared.AnnotationSidecarSetInjectedList); got != tc.after {
				t.Errorf("list %s", got)
			}
			if tc.image == "" {
				if got := names(pod, "containers"); got != "other web cache" {
					t.Errorf("containers %s", got)
				}
			} else if got := container(t, pod, "agent")["image"]; got != tc.image {
				t.Errorf("image %v", got)
			}
			sameInEveryOrder(t, tc.pod, sets, pod)
		})
	}
}

// TestTwoCanariesOfOneBase have disjoint selectors: each replaces the base in its own pods.
func TestTwoCanariesOfOneBase(t *testing.T) {
	canary := func(name string) *sidecar.Set {
		return set(t, name, "selector: {matchLabels: {app: shop, lane: "+name+"}}\ncontainers: [{name: agent, image: "+name+"}]",
			shared.AnnotationSidecarSetCanary, "true", shared.AnnotationSidecarSetBase, "base")
	}
	sets := []*sidecar.Set{set(t, "base", "selector: {matchLabels: {app: shop}}\ncontainers: [{name: agent, image: base}]"), canary("blue"), canary("green")}
	for lane, want := range map[string]string{"blue": "blue", "green": "green", "red": "base"} {
		pod := object(t, `{metadata: {labels: {app: shop, lane: `+lane+`}}, spec: {containers: [{name: web, image: w}]}}`)
		got, err := injected(t, pod, sets)
		if err != nil {
			t.Fatal(err)
		}
		if list, image := annotation(got, shared.AnnotationSidecarSetInjectedList), container(t, got, "agent")["image"]; list != want || image != want {
			t.Errorf("a pod of lane %s got image %v of %s", lane, image, list)
		}
		sameInEveryOrder(t, pod, sets, got)
	}
}

// With EnableSortSidecarContainerByName, all sets' ordinary
// sidecars stand by name, before and behind the pod's own.
func TestSidecarsSortedByName(t *testing.T) {
	sets := []*sidecar.Set{
		set(t, "s0", `{selector: {matchLabels: {app: shop}}, containers: [{name: z, image: a}, {name: b, image: a}, {name: w, image: a, podInjectPolicy: AfterAppContainer}]}`),
		set(t, "s1", `{selector: {matchLabels: {app: shop}}, containers: [{name: c, image: a}, {name: x, image: a, podInjectPolicy: AfterAppContainer}]}`),
	}
	for _, s := range sets {
		s.SortByName = true
	}
	pod, err := injected(t, object(t, shopPod), sets)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(pod, "containers"); got != "b c z web cache w x" {
		t.Errorf("containers: %s", got)
	}
	sameInEveryOrder(t, object(t, shopPod), sets, pod)
}

// The injected revision, not the latest, decides about giving way over an annotation.
func TestSetsGiveWayToWhatIsInjected(t *testing.T) {
	const head = "selector: {matchLabels: {app: shop}}\ncontainers: [{name: %s, image: a}]\n"
	first := set(t, "a", fmt.Sprintf(head, "a")+`
patchPodMetadata: [{annotations: {k: latest}}]
injectionStrategy: {revision: {customVersion: "1"}}`)
	second := set(t, "b", fmt.Sprintf(head, "b")+`patchPodMetadata: [{annotations: {k: second}}]`)
	for annotations, want := range map[string]string{"": "second", "patchPodMetadata: [{annotations: {k: pinned}}]": "pinned"} {
		payload, err := sidecar.ParseRevision(object(t, "spec: {containers: [{name: a, image: old}], "+annotations+"}"))
		if err != nil {
			t.Fatal(err)
		}
		payload.Hash, first.Pinned = "old", payload
		sets := []*sidecar.Set{first, second}
		pod, err := injected(t, object(t, shopPod), sets)
		if err != nil {
			t.Fatal(err)
		}
		if got := annotation(pod, "k"); got != want {
			t.Errorf("with %q: %s", annotations, got)
		}
		sameInEveryOrder(t, object(t, shopPod), sets, pod)
	}
}

// If OpenKruise injects too, each sidecar comes once, as its webhook made it.
func TestWhatOpenKruiseInjectedIsNotInjectedTwice(t *testing.T) {
	objects := fixtures.Objects(t, "sidecarset/state.yaml")
	for _, tc := range []struct{ set, deployment, revision string }{{"logs", "front", "logs-d7674b598"}, {"mesh", "back", "mesh-6b6696fbcf"}} {
		parsed, err := sidecar.ParseSet(fixtures.Find(t, objects, "SidecarSet", tc.set).DeepCopy().Object)
		if err != nil {
			t.Fatal(err)
		}
		compiled, err := sidecar.Compile(parsed, nil)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, one := range objects {
			if one.GetKind() != "Pod" || !strings.HasPrefix(one.GetName(), tc.deployment) {
				continue
			}
			found = true
			pod := copied(t, one.Object)
			if _, err := compiled.Inject(sidecar.Pod{Object: pod, Namespace: map[string]string{"kubernetes.io/metadata.name": "sidecarset"}}); err != nil {
				t.Fatal(err)
			}
			for _, field := range []string{"containers", "initContainers", "volumes", "imagePullSecrets"} {
				if got, want := names(pod, field), names(one.Object, field); got != want {
					t.Errorf("%s of pod %s: %s, OpenKruise made %s", field, one.GetName(), got, want)
				}
			}
		}
		if !found {
			t.Fatal("no pods of " + tc.deployment)
		}
	}
}

// Pods injected by OpenKruise come out of their Deployment's template again.
func TestOpenKruiseInjectsTheSame(t *testing.T) {
	before := fixtures.Objects(t, "sidecarset/state-after-03.yaml")
	after := fixtures.Objects(t, "sidecarset/state.yaml")
	for _, tc := range []struct{ set, deployment, revision string }{{"logs", "front", "logs-d7674b598"}, {"mesh", "back", "mesh-6b6696fbcf"}} {
		t.Run(tc.set, func(t *testing.T) {
			stored := fixtures.Find(t, after, "SidecarSet", tc.set).DeepCopy().Object
			parsed, err := sidecar.ParseSet(stored)
			if err != nil {
				t.Fatal(err)
			}
			history := fixtures.Find(t, after, "ControllerRevision", tc.revision)
			payload, err := sidecar.ParseRevision(object(t, string(fixtures.Raw(t, "sidecarset", tc.revision))))
			if err != nil {
				t.Fatal(err)
			}
			hashes := history.GetAnnotations()
			payload.Hash, payload.WithoutImage, payload.Revision = hashes[shared.AnnotationSidecarSetHash], hashes[shared.AnnotationSidecarSetHashWithoutImage], tc.revision
			parsed.Latest = *payload
			found := false
			for _, pod := range before {
				if pod.GetKind() != "Pod" || !strings.HasPrefix(pod.GetName(), tc.deployment) {
					continue
				}
				found = true
				compareWithOpenKruise(t, parsed, pod.Object, fixtures.Find(t, before, "Deployment", tc.deployment).Object)
			}
			if !found {
				t.Fatal("no pods of " + tc.deployment)
			}
		})
	}
}

// compareWithOpenKruise injects into the Deployment's pod, with the API server's token, and compares.
func compareWithOpenKruise(t *testing.T, s *sidecar.Set, recorded, deployment map[string]any) {
	t.Helper()
	pod := copied(t, deployment["spec"].(map[string]any)["template"].(map[string]any))
	spec, want := pod["spec"].(map[string]any), copied(t, recorded)["spec"].(map[string]any)
	volumes, _ := spec["volumes"].([]any)
	for _, v := range want["volumes"].([]any) {
		if name, _ := v.(map[string]any)["name"].(string); strings.HasPrefix(name, "kube-api-access-") {
			volumes = append(volumes, v)
			token := map[string]any{"name": name, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}
			mountToken(spec, token)
			defer func() { _ = token }()
			spec["volumes"] = volumes
			compiled, err := sidecar.Compile(s, []*sidecar.Set{s})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := compiled.Inject(sidecar.Pod{Object: pod, Namespace: map[string]string{"kubernetes.io/metadata.name": "sidecarset"}}); err != nil {
				t.Fatal(err)
			}
			mountToken(spec, token)
		}
	}
	for _, field := range []string{"containers", "initContainers", "volumes"} {
		if diff := cmp.Diff(want[field], copied(t, spec)[field]); diff != "" {
			t.Errorf("%s: %s", field, diff)
		}
	}
	theirs := recorded["metadata"].(map[string]any)["annotations"].(map[string]any)
	for key, value := range theirs {
		if got := annotation(pod, key); withoutTime(got) != withoutTime(value.(string)) {
			t.Errorf("annotation %s:\n ours   %s\n theirs %s", key, got, value)
		}
	}
}

// mountToken gives every container the token's mount, as the API server does before and after webhooks.
func mountToken(spec map[string]any, token map[string]any) {
	for _, field := range []string{"containers", "initContainers"} {
		list, _ := spec[field].([]any)
		for _, one := range list {
			c := one.(map[string]any)
			mounts, _ := c["volumeMounts"].([]any)
			if !slices.ContainsFunc(mounts, func(m any) bool { return m.(map[string]any)["mountPath"] == token["mountPath"] }) {
				c["volumeMounts"] = append(slices.Clone(mounts), token)
			}
		}
	}
}

// withoutTime leaves out when OpenKruise injected: ours says when the revision was made.
func withoutTime(text string) string {
	const key = `"updateTimestamp":`
	for {
		at := strings.Index(text, key)
		if at < 0 {
			return text
		}
		end := strings.Index(text[at:], ",")
		text = text[:at] + text[at+end+1:]
	}
}

func TestCheckExpression(t *testing.T) {
	for text, want := range map[string]string{
		"cpu*50%": "", "max(cpu*10%, 100m)": "", "cpu": "", "CPU/2": "", "-(1-cpu)": "", "min(max(1, cpu), 4)": "", "1e1*cpu": "", "cpu+0.5": "",
		"cpu*100m": "multiplied by a quantity", "1/cpu": "divided by a quantity", "cpu/0": "division by zero", "max(cpu,1,2)": "expected",
		"": "parsed", "cpu cpu": "parsed", "disk": "neither", "memory": "cannot use memory", strings.Repeat("(", 100) + "1": "parsed", "--cpu": "", "1--1": "",
		"+cpu": "only", "cpu%2": "expected", "cpu//2": "comments", "max(1,cpu,)": "comma", "func(){}": "only", `"1"`: "quotes", "1..5": "no number", "1e9999": "exponent",
		strings.Repeat("1+", 600) + "1": "longer",
	} {
		err := sidecar.CheckExpression(text, "cpu")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestExpressions(t *testing.T) {
	for _, tc := range []struct{ mode, field, resource, text, want string }{
		{"sum", "requests", "cpu", "cpu*50%", "600m"},
		{"max", "requests", "cpu", "cpu*50%", "500m"},
		{"sum", "requests", "cpu", "cpu/3", "400m"},
		{"sum", "requests", "cpu", "cpu-5", "0"},
		{"sum", "requests", "cpu", "0.25", "250m"},
		{"sum", "requests", "cpu", "0.0009", "0"},
		{"sum", "requests", "memory", "64", "64"},
		{"sum", "requests", "memory", "max(64Mi, memory*10%)", "64Mi"},
		{"sum", "requests", "memory", "1.5Gi", "1536Mi"},
		{"sum", "limits", "cpu", "100m", ""},
		{"sum", "limits", "memory", "200Mi", ""},
	} {
		s := set(t, "res", `
selector: {matchLabels: {app: shop}}
containers:
- {name: agent, image: a, resourcesPolicy: {targetContainersMode: `+tc.mode+`, resourcesExpr: {`+tc.field+`: {`+tc.resource+`: "`+tc.text+`"}}}}
`)
		pod, err := injected(t, object(t, resourcesPod), []*sidecar.Set{s})
		if err != nil {
			t.Fatal(err)
		}
		resources, _ := container(t, pod, "agent")["resources"].(map[string]any)
		amounts, _ := resources[tc.field].(map[string]any)
		got, _ := amounts[tc.resource].(string)
		if got != tc.want {
			t.Errorf("%s of %s %s: %q is %q, want %q", tc.mode, tc.field, tc.resource, tc.text, got, tc.want)
		}
	}
}

// Each resource is limited by itself: a constant memory limit stays without any cpu limit.
func TestAConstantLimitDependsOnItsOwnResource(t *testing.T) {
	pod := object(t, `
metadata: {labels: {app: shop}}
spec:
  containers:
  - {name: app, image: a, resources: {limits: {memory: 4Gi}}}
  - {name: cache, image: c, resources: {limits: {memory: 1Gi}}}
`)
	s := set(t, "res", `
selector: {matchLabels: {app: shop}}
containers:
- {name: agent, image: a, resourcesPolicy: {targetContainersMode: sum, resourcesExpr: {limits: {memory: "200Mi", cpu: "100m"}}}}
`)
	pod, err := injected(t, pod, []*sidecar.Set{s})
	if err != nil {
		t.Fatal(err)
	}
	resources, _ := container(t, pod, "agent")["resources"].(map[string]any)
	if diff := cmp.Diff(map[string]any{"memory": "200Mi"}, resources["limits"]); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

// One way for each set: a single feature the policy lacks sends all of it to the webhook.
func TestWhichFeaturesGoByWebhook(t *testing.T) {
	const partial = "injectionStrategy: {revision: {customVersion: \"1\", policy: Partial}}\nupdateStrategy: "
	for spec, byWebhook := range map[string]bool{
		`patchPodMetadata: [{annotations: {k: '{"a":1}'}, patchPolicy: MergePatchJson}]`: true,
		`patchPodMetadata: [{annotations: {k: v}, patchPolicy: Overwrite}]`:              false,
		`volumes: [{name: v, emptyDir: {}}]`:                                             false,
		`initContainers: [{name: i, image: a, futureField: {a: 1}}]`:                     true,
		partial + "{partition: 30%}":                                                     true,
		`initContainers: [{name: i, image: a, restartPolicy: Always, resourcesPolicy: {targetContainersMode: sum, resourcesExpr: {requests: {cpu: cpu}}}}]`: true,
		partial + "{partition: 3}":                    false,
		partial + "{selector: {matchLabels: {a: b}}}": false,
	} {
		s := set(t, "log", "selector: {matchLabels: {app: shop}}\ncontainers: [{name: agent, image: a, shareVolumePolicy: {type: enabled}}]\n"+spec)
		if s.Revision != nil {
			s.Pinned = &s.Latest
		}
		compiled, err := sidecar.Compile(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := compiled.Webhooked(); (len(got) > 0) != byWebhook {
			t.Errorf("%s: left to the webhook: %v", spec, got)
		}
	}
}
