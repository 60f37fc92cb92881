// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package injection_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kruise-operator/kruise-operator/internal/engine/sidecar"
)

var (
	rounds = flag.Int("rounds", 1500, "how many pods are compared")
	seed   = flag.Uint64("seed", 1, "where the generated pods and SidecarSets begin")
)

// The policy and the injector give the same pod, for one set after the other, in any order, and when the other way has been there before.
func TestPolicyInjectsAsTheReference(t *testing.T) {
	e := compile(t)
	injections := 0
	features := map[string]int{}
	for round := range *rounds {
		g := &generator{rand.New(rand.NewPCG(*seed, uint64(round)))}
		sets, pod, namespace := g.world(t)
		byPolicy, byWebhook := pod, pod
		typed := g.IntN(2) == 0
		for _, at := range append(g.Perm(len(sets)), g.Perm(len(sets))...) {
			if !sets[at].Match.Selects(pod.Labels, namespace.Labels) {
				continue
			}
			compiled, err := sidecar.Compile(sets[at], sets)
			if err != nil {
				t.Fatal(err)
			}
			revision := revisionOf(t, compiled)
			if gaps := compiled.Webhooked(); len(gaps) > 0 {
				features[fmt.Sprint(gaps)]++
				continue
			}
			if byWebhook, err = byReference(t, byWebhook, namespace, revision); err != nil {
				t.Fatal(err)
			}
			before := byPolicy
			if byPolicy, err = e.apply(t.Context(), byPolicy, namespace, revision, typed); err != nil {
				t.Fatalf("seed %d, round %d: %v\npod %s\nrevision %s", *seed, round, err, text(before), revision.Data.Raw)
			}
			injections++
			compare(t, round, byWebhook, byPolicy, before, revision)
		}
		if t.Failed() {
			return
		}
	}
	if injections < *rounds {
		t.Errorf("only %d injections in %d rounds were compared", injections, *rounds)
	}
	t.Logf("%d injections compared in %d rounds; left to the webhook: %v", injections, *rounds, features)
}

func compare(t *testing.T, round int, want, got, before *corev1.Pod, revision *appsv1.ControllerRevision) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(corev1.Pod{}, "TypeMeta"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("seed %d, round %d (-webhook +policy):\n%s\npod %s\nrevision %s", *seed, round, diff, text(before), revision.Data.Raw)
	}
}

func text(value any) string {
	data, _ := json.Marshal(value)
	return string(data)
}

// generator makes up pods and SidecarSets whose names meet often.
type generator struct{ *rand.Rand }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

func (g *generator) world(t testing.TB) ([]*sidecar.Set, *corev1.Pod, *corev1.Namespace) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"kubernetes.io/metadata.name": "shop", "team": pick(g, "a", "b")}}}
	var sets []*sidecar.Set
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
		sets = append(sets, s)
	}
	return sets, g.pod(), namespace
}

type object = map[string]any

// set is the n-th SidecarSet. Its own names have n in them; some names are everybody's.
func (g *generator) set(n int) object {
	name := fmt.Sprintf("set-%d", n)
	annotations := object{sidecar.HashAnnotation: fmt.Sprintf("h%d", n), sidecar.HashWithoutImageAnnotation: fmt.Sprintf("b%d", n)}
	if n > 0 && g.chance(15) {
		annotations[sidecar.CanaryAnnotation], annotations[sidecar.BaseAnnotation] = "true", fmt.Sprintf("set-%d", n-1)
	}
	spec := object{
		"selector":         g.selector(),
		"containers":       g.sidecars(n, "s", false),
		"initContainers":   g.sidecars(n, "i", true),
		"volumes":          []any{object{"name": fmt.Sprintf("v%d", n), "emptyDir": object{}}, object{"name": "shared", "emptyDir": object{}}, object{"name": "unused", "emptyDir": object{}}},
		"imagePullSecrets": []any{object{"name": pick(g, "p0", "p1", "p2")}, object{"name": "p1"}},
	}
	if g.chance(30) {
		spec["namespaceSelector"] = object{"matchLabels": object{"team": "a"}}
	}
	if g.chance(50) {
		spec["patchPodMetadata"] = []any{
			object{"annotations": object{"example.com/retained~x": name, "example.com/other": name}, "patchPolicy": "Retain"},
			object{"annotations": object{fmt.Sprintf("example.com/own-%d", n): name}, "patchPolicy": "Overwrite"},
		}
	}
	if g.chance(10) {
		spec["injectionStrategy"] = object{"paused": true}
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
		if g.chance(60) {
			c["podInjectPolicy"] = pick(g, "BeforeAppContainer", "AfterAppContainer")
		}
		if g.chance(50) {
			c["volumeMounts"] = []any{object{"name": pick(g, fmt.Sprintf("v%d", n), "shared", "own"), "mountPath": pick(g, "/a", "/b")}}
		}
		if g.chance(40) {
			c["env"] = []any{object{"name": pick(g, "A", "B", "X"), "value": "mine"}}
		}
		if g.chance(20) && !init {
			c["upgradeStrategy"] = object{"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:v1"}
		}
		if g.chance(30) {
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
		if init && g.chance(40) {
			c["restartPolicy"] = "Always"
		}
		list = append(list, c)
	}
	return list
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
			pod.Annotations[sidecar.InjectedListAnnotation] = "zz,aa"
			pod.Annotations[sidecar.HashAnnotation] = `{"aa":{"hash":"h","sidecarSetName":"aa","sidecarList":["x"]}}`
		}
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
	if g.chance(30) {
		c.VolumeDevices = []corev1.VolumeDevice{{Name: "raw", DevicePath: pick(g, "/a", "/dev/x")}}
	}
	return c
}
