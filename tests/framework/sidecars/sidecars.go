// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package sidecars makes up SidecarSets, and pods for them, with every feature of injection.
package sidecars

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
)

// generator makes up pods and SidecarSets with often meeting names.
type generator struct {
	*rand.Rand
	// prefix begins the names of the sets.
	prefix string
}

// World are up to three SidecarSets, named with a prefix, and a pod in a namespace some of
// them select.
func World(t testing.TB, random *rand.Rand, prefix string) ([]*sidecar.Set, *corev1.Pod, *corev1.Namespace) {
	t.Helper()
	g := &generator{random, prefix}
	return g.fixture(t)
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

func (g *generator) fixture(t testing.TB) ([]*sidecar.Set, *corev1.Pod, *corev1.Namespace) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"kubernetes.io/metadata.name": "shop", "team": pick(g, "a", "b")}}}
	var sets []*sidecar.Set
	sorted := g.chance(25)
	for n := range 1 + g.IntN(3) {
		o := g.set(n)
		object := map[string]any{}
		data, err := json.Marshal(o)
		if err == nil {
			err = kjson.Unmarshal(data, &object)
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err := sidecar.ParseSet(object)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		s.SortByName = sorted
		if s.Revision != nil {
			s.Pinned = g.earlier(s.Latest)
		}
		sets = append(sets, s)
	}
	return sets, g.pod(), namespace
}

// earlier is a revision before the latest one: with other images, and sometimes with other containers, volumes, secrets and annotations.
func (g *generator) earlier(latest sidecar.Payload) *sidecar.Payload {
	old := latest
	old.Hash, old.Revision, old.Containers = "old-"+old.Hash, "old", nil
	for _, c := range latest.Containers {
		c = maps.Clone(c)
		c["image"] = "old:v0"
		if g.chance(20) {
			c["env"] = []any{object{"name": "A", "value": "old"}}
		}
		old.Containers = append(old.Containers, c)
	}
	if g.chance(30) {
		old.Containers = append(old.Containers[:len(old.Containers)/2:len(old.Containers)/2], object{"name": "gone", "image": "old:v0"})
	}
	if g.chance(20) {
		old.InitContainers = nil
	}
	if g.chance(20) {
		old.Volumes, old.Secrets, old.Patches = nil, []string{"p9"}, nil
	}
	return &old
}

type object = map[string]any

// set is the n-th SidecarSet. Its own names have n in them; some names are everybody's.
func (g *generator) set(n int) object {
	name := fmt.Sprintf("%sset-%d", g.prefix, n)
	annotations := object{shared.AnnotationSidecarSetHash: fmt.Sprintf("h%d", n), shared.AnnotationSidecarSetHashWithoutImage: fmt.Sprintf("b%d", n)}
	if n > 0 && g.chance(15) {
		annotations[shared.AnnotationSidecarSetCanary], annotations[shared.AnnotationSidecarSetBase] = "true", fmt.Sprintf("%sset-%d", g.prefix, n-1)
	}
	spec := object{
		"selector":         g.selector(),
		"containers":       g.sidecars(n, "s", false),
		"initContainers":   g.sidecars(n, "i", true),
		"volumes":          []any{object{"name": fmt.Sprintf("v%d", n), "emptyDir": object{}}, object{"name": "shared", "emptyDir": object{}}, object{"name": "unused", "emptyDir": object{}}},
		"imagePullSecrets": []any{object{"name": pick(g, "p0", "p1", "p2")}, object{"name": "p1"}},
	}
	if g.chance(30) {
		spec["namespaceSelector"] = pick(g,
			object{"matchLabels": object{"team": "a"}},
			object{"matchExpressions": []any{object{"key": "team", "operator": "In", "values": []any{"a", "b"}}}},
			object{"matchExpressions": []any{object{"key": "team", "operator": "NotIn", "values": []any{"b"}}}},
			object{"matchExpressions": []any{object{"key": "team", "operator": "Exists"}, object{"key": "gone", "operator": "DoesNotExist"}}},
		)
	}
	if g.chance(50) {
		patches := []any{
			object{"annotations": object{"example.com/retained.x": name, "example.com/other": name}, "patchPolicy": "Retain"},
			object{"annotations": object{fmt.Sprintf("example.com/own-%d", n): name}, "patchPolicy": "Overwrite"},
		}
		if g.chance(20) { // The whole set goes by webhook then.
			patches = append(patches, object{"annotations": object{
				pick(g, "example.com/json", fmt.Sprintf("example.com/json-%d", n)): pick(g, `{"a":1}`, `{"b": {"c": null}}`),
			}, "patchPolicy": "MergePatchJson"})
		}
		spec["patchPodMetadata"] = patches
	}
	if g.chance(10) {
		spec["injectionStrategy"] = object{"paused": true}
	} else if g.chance(30) {
		spec["injectionStrategy"] = object{"revision": object{"customVersion": "1", "policy": pick(g, "Partial", "Partial", "Partial", "Always")}}
		update := object{"partition": pick[any](g, fmt.Sprintf("%d%%", 1+g.IntN(99)), "0%", "100%", 0, 3)}
		if g.chance(40) {
			update["selector"] = pick(g, object{"matchLabels": object{"tier": "web"}}, object{"matchExpressions": []any{object{"key": "tier", "operator": "NotIn", "values": []any{"web"}}}})
		}
		if g.chance(10) {
			update["paused"] = true
		}
		spec["updateStrategy"] = update
	}
	return object{
		"metadata": object{"name": name, "creationTimestamp": "2026-05-04T08:00:00Z", "annotations": annotations}, "spec": spec,
		"status": object{"latestRevision": name + "-r"},
	}
}

func (g *generator) selector() object {
	switch g.IntN(5) {
	case 0:
		return object{"matchExpressions": []any{object{"key": "app", "operator": "Exists"}}}
	case 1:
		return object{"matchExpressions": []any{object{"key": "tier", "operator": "NotIn", "values": []any{"db"}}, object{"key": "app", "operator": "In", "values": []any{"shop", "x"}}}}
	case 2:
		return object{"matchLabels": object{"tier": "web"}}
	case 3:
		return object{"matchExpressions": []any{object{"key": "off", "operator": "DoesNotExist"}}}
	}
	return object{"matchLabels": object{"app": "shop"}}
}

func (g *generator) sidecars(n int, prefix string, init bool) []any {
	list := []any{}
	for k := range g.IntN(3) {
		c := object{"name": fmt.Sprintf("%s%d%d", prefix, g.IntN(3)*10+n, k), "image": pick(g, "a:v1", "b:v2")}
		if init && g.chance(40) {
			c["restartPolicy"] = "Always"
		}
		if g.chance(60) {
			c["podInjectPolicy"] = pick(g, "BeforeAppContainer", "AfterAppContainer")
		}
		if g.chance(50) {
			c["volumeMounts"] = []any{object{"name": pick(g, fmt.Sprintf("v%d", n), "shared", "own"), "mountPath": pick(g, "/a", "/b")}}
		}
		if g.chance(40) {
			c["env"] = []any{object{"name": pick(g, "A", "B", "X"), "value": "mine"}}
		}
		if g.chance(20) && (!init || c["restartPolicy"] == "Always") {
			c["upgradeStrategy"] = object{"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:v1"}
		}
		if g.chance(5) && (!init || c["restartPolicy"] == "Always") {
			c["resourcesPolicy"] = g.resources()
		} else if g.chance(30) {
			c["command"], c["ports"] = []any{"sh", "-c", "x"}, []any{object{"containerPort": 80}}
			c["resources"] = object{"limits": object{"cpu": "100m"}}
			c["lifecycle"] = object{"postStart": object{"exec": object{"command": []any{"a"}}}}
		}
		if g.chance(30) {
			c["shareVolumePolicy"] = object{"type": "enabled"}
		}
		if g.chance(20) {
			c["shareVolumeDevicePolicy"] = object{"type": "enabled"}
		}
		if g.chance(40) {
			c["transferEnv"] = g.transfers()
		}
		list = append(list, c)
	}
	return list
}

// resources are expressions as people write them, some with several steps.
func (g *generator) resources() object {
	expression := func(variable, unit string) string {
		x := variable
		for range 1 + g.IntN(3) {
			switch g.IntN(8) {
			case 0:
				x = fmt.Sprintf("max(%s, %d%s)", x, g.IntN(300), unit)
			case 1:
				x = fmt.Sprintf("min(%d%s, %s)", g.IntN(900), unit, x)
			case 2:
				x = fmt.Sprintf("(%s + %s*%d%%)", x, variable, g.IntN(100))
			case 3:
				x = fmt.Sprintf("(%s - %d%s)", x, g.IntN(200), unit)
			case 4:
				x = fmt.Sprintf("(%s)/%d", x, 1+g.IntN(7))
			case 5:
				x = fmt.Sprintf("%s*%d.%d", x, g.IntN(2), g.IntN(1000))
			case 6:
				x = fmt.Sprintf("-(0.25 - %s)", x)
			case 7:
				x = fmt.Sprintf("%d%s", g.IntN(900), unit)
			}
		}
		return x
	}
	policy := object{"targetContainersMode": pick(g, "sum", "max"), "targetContainersNameRegex": pick(g, ".*", ".*", "^web$", "we|ca", "ini")}
	expr := object{"requests": object{"cpu": expression("cpu", "m")}}
	if g.chance(60) {
		expr["limits"] = object{"memory": expression("memory", pick(g, "Mi", "M", "Ki")), "cpu": expression("cpu", "m")}
	}
	policy["resourcesExpr"] = expr
	return policy
}

func (g *generator) transfers() []any {
	list := []any{}
	for range 1 + g.IntN(2) {
		transfer := object{"envNames": []any{pick(g, "A", "B"), pick(g, "B", "C", "missing")}}
		switch g.IntN(3) {
		case 0:
			transfer["sourceContainerName"] = pick(g, "web", "cache", "nobody")
		case 1:
			transfer["sourceContainerNameFrom"] = object{"fieldRef": object{"apiVersion": "v1", "fieldPath": "metadata.labels['" + pick(g, "main", "nothing") + "']"}}
		case 2:
			transfer["sourceContainerNameFrom"] = object{"fieldRef": object{"apiVersion": "v1", "fieldPath": "metadata.annotations['main']"}}
		}
		list = append(list, transfer)
	}
	return list
}

func (g *generator) pod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-", Labels: map[string]string{"app": pick(g, "shop", "x"), "tier": pick(g, "web", "db"), "main": "cache"}}}
	if g.chance(20) {
		pod.Labels = nil
	}
	if g.chance(50) {
		pod.Annotations = map[string]string{"main": "web"}
		if g.chance(30) {
			pod.Annotations["example.com/other"] = "pod's"
		}
		if g.chance(20) {
			pod.Annotations[shared.AnnotationSidecarSetInjectedList] = "zz," + g.prefix + "set-1,aa"
			pod.Annotations[shared.AnnotationSidecarSetHash] = `{"aa":{"hash":"h","sidecarSetName":"aa","sidecarList":["x"]},"` + g.prefix + `set-1":` +
				pick(g, `"h"`, `{"hash":"h","sidecarSetName":"`+g.prefix+`set-1","sidecarList":["x"]}`) + `}`
		}
	}
	if pod.Annotations != nil && g.chance(40) {
		pod.Annotations[pick(g, "example.com/json", "example.com/json-0", "example.com/json-1")] = pick(g, "", `{"a":1}`, `{"z":{"c":1}}`)
	}
	if g.chance(70) {
		token := "kube-api-access-"
		for range 5 {
			token += string("bcdfghjklmnpqrstvwxz2456789"[g.IntN(27)])
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: token})
	}
	used := map[string]bool{}
	name := func(from ...string) (string, bool) {
		n := pick(g, from...)
		defer func() { used[n] = true }()
		return n, !used[n]
	}
	for range 1 + g.IntN(3) {
		if n, free := name("web", "cache", "web", "s00", "s10", "s01"); free {
			pod.Spec.Containers = append(pod.Spec.Containers, g.container(n))
		}
	}
	for range g.IntN(3) {
		if n, free := name("init", "i00", "i10", "z"); free {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, g.container(n))
		}
	}
	for range g.IntN(3) {
		if n, free := name("own", "shared", "v1"); free {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: n, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory"}}})
		}
	}
	if g.chance(30) {
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: pick(g, "p1", "mine")}}
	}
	return pod
}

func (g *generator) container(name string) corev1.Container {
	c := corev1.Container{Name: name, Image: pick(g, "a:v1", "own:v1")}
	for _, n := range []string{"A", "B", "C"} {
		switch g.IntN(4) {
		case 0:
			c.Env = append(c.Env, corev1.EnvVar{Name: n, Value: n + "-" + name})
		case 1:
			c.Env = append(c.Env, corev1.EnvVar{Name: n, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}})
		}
	}
	for range g.IntN(3) {
		m := corev1.VolumeMount{Name: pick(g, "own", "shared"), MountPath: pick(g, "/a", "/c", "/d")}
		if g.chance(40) {
			m.SubPathExpr = pick(g, "$(A)/$(C)", "x", "$(B)")
		}
		c.VolumeMounts = append(c.VolumeMounts, m)
	}
	if g.chance(70) {
		c.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(pick(g, "100m", "1", "1.5", "333m")), "memory": resource.MustParse(pick(g, "64Mi", "1.5Gi", "1000", "2G"))}
	}
	if g.chance(70) {
		c.Resources.Limits = corev1.ResourceList{"memory": resource.MustParse(pick(g, "128Mi", "3Gi", "1234567"))}
		if g.chance(70) {
			c.Resources.Limits["cpu"] = resource.MustParse(pick(g, "2", "700m"))
		}
	}
	if name == "init" {
		c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	}
	if g.chance(30) {
		c.VolumeDevices = []corev1.VolumeDevice{{Name: "raw", DevicePath: pick(g, "/a", "/dev/x")}}
	}
	return c
}
