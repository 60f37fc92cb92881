// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// place is a field of a kind: the names of the fields on the way to it. "[]" is the first item of a list, "{}" a key of a map.
type place struct {
	at []string
	of reflect.Type
	// foreign fields are Kubernetes' own. All kinds with pod templates share them, so they
	// get fewer bodies.
	foreign bool
}

func (p place) String() string { return strings.Join(p.at, ".") }

// maxStored is the largest object etcd takes by default.
const maxStored = 3 << 19

// Each day sends one in every of a place's requests, and one in every*rarer of those that
// rarely find anything new. All take more than an hour.
const every, rarer = 192, 8

// foreignLevels is how deep the places of Kubernetes' own types go.
const foreignLevels = 3

// places are all fields of a type.
func places(of reflect.Type, at []string, foreign int) []place {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if strings.HasPrefix(of.PkgPath(), "k8s.io/") {
		foreign++
	}
	if foreign > foreignLevels || len(at) > 12 {
		return nil
	}
	found := []place{{at: at, of: of, foreign: foreign > 1}}
	deeper := func(name string, t reflect.Type) {
		found = append(found, places(t, append(slices.Clone(at), name), foreign)...)
	}
	switch {
	case reflect.PointerTo(of).Implements(reflect.TypeFor[json.Unmarshaler]()):
	case of.Kind() == reflect.Struct:
		for f := range of.Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "-" || !f.IsExported():
			case name == "" && strings.Contains(options, "inline"):
				found = append(found, places(f.Type, at, foreign)[1:]...)
			default:
				deeper(name, f.Type)
			}
		}
	case of.Kind() == reflect.Slice && of.Elem().Kind() != reflect.Uint8:
		deeper("[]", of.Elem())
	case of.Kind() == reflect.Map:
		deeper("{}", of.Elem())
	}
	return found
}

// shapesOf are hostile values for a place.
func shapesOf(of reflect.Type, size int) map[string]func() string {
	const long = 500 << 10 // just short enough
	shapes := map[string]func() string{
		"a number":        func() string { return `7` },
		"a long text":     func() string { return `"` + strings.Repeat("x", long) + `"` },
		"a longer text":   func() string { return `"` + strings.Repeat("x", size) + `"` },
		"lists in lists":  func() string { return strings.Repeat("[", 150) + strings.Repeat("]", 150) },
		"a long number":   func() string { return strings.Repeat("9", 1000) },
		"a hundred lists": func() string { return `[` + times("["+times("{}", 100)+"]", 300) + `]` },
	}
	switch of.Kind() {
	case reflect.Slice:
		shapes["numbers"] = func() string { return `[` + times(`%d`, 9_990) + `]` }
		shapes["texts"] = func() string { return `[` + times(`"x%d"`, 9_990) + `]` }
		shapes["equal texts"] = func() string { return `[` + times(`"a"`, 9_990) + `]` }
		shapes["long texts"] = func() string { return `[` + times(`"!`+strings.Repeat("%d", 100)+`"`, 5_000) + `]` }
		shapes["empty objects"] = func() string { return `[` + times(`{}`, 1_990) + `]` }
		shapes["more empty objects"] = func() string { return `[` + many(`{}`, size) + `]` }
		shapes["objects"] = func() string { return `[` + times(exampleOf(of.Elem(), "x%d", 0), 1_900) + `]` }
		shapes["equal objects"] = func() string { return `[` + times(exampleOf(of.Elem(), "a", 0), 1_900) + `]` }
		shapes["objects with bad names"] = func() string { return `[` + times(exampleOf(of.Elem(), "!%d", 0), 1_900) + `]` }
		shapes["a few objects with long lists"] = func() string { return `[` + times(exampleOf(of.Elem(), "x%d", 300), 20) + `]` }
	case reflect.Map:
		shapes["keys"] = func() string { return `{` + times(`"k%d":`+exampleOf(of.Elem(), "x%d", 0), 9_990) + `}` }
		shapes["bad keys"] = func() string { return `{` + times(`"!%d":`+exampleOf(of.Elem(), "!", 0), 1_990) + `}` }
		shapes["keys of numbers"] = func() string { return `{` + times(`"k%d":%d`, 9_990) + `}` }
		shapes["more keys"] = func() string { return `{` + many(`"k%d":{}`, size) + `}` }
		shapes["a long key"] = func() string { return `{"` + strings.Repeat("k", size) + `":7}` }
		shapes["an object under a long key"] = func() string {
			return `{"` + strings.Repeat("k", size-1<<17) + `":` + exampleOf(of.Elem(), "!", 40) + `}`
		}
	case reflect.Struct:
		shapes["unknown fields"] = func() string { return `{` + times(`"f%d":{"a":0}`, 9_990) + `}` }
		shapes["more unknown fields"] = func() string { return `{` + many(`"f%d":0`, size) + `}` }
		shapes["all fields as texts"] = func() string { return exampleOf(of, "x", 100) }
	case reflect.String:
		shapes["a long text of marks"] = func() string { return `"` + strings.Repeat(`\"`, long/2) + `"` }
		shapes["a repetition"] = func() string { return `"` + strings.Repeat(`a{1000}`, long/7) + `"` }
		shapes["nested brackets"] = func() string { return `"` + strings.Repeat(`(`, long/2) + strings.Repeat(`)`, long/2) + `"` }
		shapes["a long sum"] = func() string { return `"1` + strings.Repeat(`+1`, long/3) + `"` }
		shapes["a long path"] = func() string { return `"` + strings.Repeat(`a/`, long/3) + `"` }
	}
	return shapes
}

// refusedForSize are shapes refused before decoding.
func refusedForSize() []string {
	return []string{"a longer text", "more empty objects", "more keys", "a long key", "an object under a long key", "more unknown fields"}
}

// exampleOf is an object of a type with one text everywhere and n items in its own lists.
func exampleOf(of reflect.Type, text string, n int) string {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case of.Kind() == reflect.String:
		return `"` + text + `"`
	case of.Kind() == reflect.Bool:
		return `true`
	case of.Kind() == reflect.Slice:
		return `[` + times(strings.ReplaceAll(exampleOf(of.Elem(), text, 0), "%d", "0"), n) + `]`
	case of.Kind() == reflect.Map:
		return `{` + times(`"`+strings.ReplaceAll(text, "%d", "")+`%d":`+strings.ReplaceAll(exampleOf(of.Elem(), text, 0), "%d", "0"), n) + `}`
	case reflect.PointerTo(of).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return `"` + text + `"`
	case of.Kind() == reflect.Struct:
		var fields []string
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			t := f.Type
			for t.Kind() == reflect.Pointer {
				t = t.Elem()
			}
			switch t.Kind() {
			case reflect.String, reflect.Bool:
			case reflect.Slice, reflect.Map:
				if n == 0 {
					continue
				}
			default:
				continue
			}
			if name != "" && name != "-" {
				fields = append(fields, `"`+name+`":`+exampleOf(t, text, n))
			}
		}
		return `{` + strings.Join(fields, ",") + `}`
	}
	return `7`
}

// placed is an object with something at a place, and the rest of it as it is.
func placed(t testing.TB, object map[string]any, at []string, what string) string {
	t.Helper()
	const marker = "@what@"
	text, err := json.Marshal(set(object, at, marker))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(string(text), `"`+marker+`"`, what, 1)
}

func set(in any, at []string, value any) any {
	if len(at) == 0 {
		return value
	}
	switch at[0] {
	case "[]":
		list, _ := in.([]any)
		list = slices.Clone(list)
		if len(list) == 0 {
			list = append(list, nil)
		}
		list[0] = set(list[0], at[1:], value)
		return list
	default:
		object, key := map[string]any{}, at[0]
		if is, ok := in.(map[string]any); ok {
			for k, v := range is {
				object[k] = v
				if at[0] == "{}" {
					key = k
				}
			}
		}
		object[key] = set(object[key], at[1:], value)
		return object
	}
}

// full is the richest sample of a version of a kind.
func full(t testing.TB, kind kinds.Kind, version string) map[string]any {
	t.Helper()
	short, _, _ := strings.Cut(kind.Group, ".")
	name := filepath.Join("..", "..", "config", "samples", fmt.Sprintf("%s_%s_%s", short, version, kind.Lower()))
	text, err := os.ReadFile(name + "_full.yaml")
	if err != nil {
		text, err = os.ReadFile(name + ".yaml")
	}
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{}
	if err := yaml.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// typed are the places of a version of a kind, with the templates of a UnitedDeployment and the resource of a ResourceDistribution.
func typed(t testing.TB, kind kinds.Kind, version string) []place {
	t.Helper()
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	object, err := known.New(schema.GroupVersionKind{Group: kind.Group, Version: version, Kind: kind.Name})
	if err != nil {
		t.Fatal(err)
	}
	var found []place
	for _, p := range places(reflect.TypeOf(object), nil, 0) {
		if len(p.at) == 0 || p.at[0] != "spec" && p.at[0] != "metadata" && (p.at[0] != "status" || kind.Name != "ContainerRecreateRequest") {
			continue
		}
		found = append(found, p)
	}
	if kind.Name == "UnitedDeployment" {
		found = append(found, places(reflect.TypeFor[v1beta1.CloneSetSpec](), []string{"spec", "template", "cloneSetTemplate", "spec"}, 0)...)
		found = append(found, places(reflect.TypeFor[map[string]map[string]string](), []string{"spec", "topology", "subsets", "[]", "patch"}, 0)...)
	}
	if kind.Name == "ResourceDistribution" {
		found = append(found, places(reflect.TypeFor[corev1.Secret](), []string{"spec", "resource"}, 0)...)
		found = append(found, places(reflect.TypeFor[corev1.ConfigMap](), []string{"spec", "resource"}, 0)...)
	}
	return found
}

// attempt is one request: the value, the object it is in, and any stored object.
type attempt struct{ what, object, stored string }

// attempts are a hostile client's requests for a version of a kind. Each day sends a part:
// most differ by place alone.
func attempts(t testing.TB, kind kinds.Kind, version string, send func(attempt)) {
	const size = hostileSize - 1<<16
	base := full(t, kind, version)
	stored, err := json.Marshal(full(t, kind, kind.Storage))
	if err != nil {
		t.Fatal(err)
	}
	turn := 0
	for _, p := range typed(t, kind, version) {
		shapes := shapesOf(p.of, size)
		for _, name := range slices.Sorted(maps.Keys(shapes)) {
			turn++
			in := every
			if p.foreign || version != kind.Storage || slices.Contains(refusedForSize(), name) {
				in *= rarer
			}
			if !sample.Has(turn, in) {
				continue
			}
			object, what := placed(t, base, p.at, shapes[name]()), fmt.Sprintf("%s at %s", name, p)
			send(attempt{what: "create with " + what, object: object})
			keeps := len(object) < maxStored && (sample.All() || (turn+sample.Day())/in%2 == 0)
			if keeps {
				send(attempt{what: "update that keeps " + what, object: object, stored: strings.Replace(object, `"spec":{`, `"spec":{"was":1,`, 1)})
			}
			if sample.All() || !keeps {
				send(attempt{what: "update to " + what, object: object, stored: string(stored)})
			}
		}
	}
}

// memoryOf is how much memory a request about a kind may take. A NodeImage may have thousands of tags with secrets and owners each, so it gets more; it is
// for administrators, and for the operator itself.
func memoryOf(kind kinds.Kind) uint64 {
	if kind.Name == "NodeImage" {
		return maxMemory * 3 / 2
	}
	return maxMemory
}

// TestNoFieldOfAKindOccupiesTheOperator puts hostile values into the fields of every kind,
// one by one.
func TestNoFieldOfAKindOccupiesTheOperator(t *testing.T) {
	s, c := serve()
	for _, kind := range controllers.Table().Where(func(k kinds.Kind) bool { return k.Admission || k.Converted }) {
		t.Run(kind.Name, func(t *testing.T) {
			sent := 0
			defer func() {
				t.Logf("sent %d requests", sent)
				if sent == 0 {
					t.Error("no handler was sent anything")
				}
			}()
			for _, version := range kind.Versions {
				attempts(t, kind, version, func(a attempt) {
					for at, handler := range s.handlers {
						if !strings.HasSuffix(at, "-"+kind.Lower()) && (at != "/convert" || !kind.Converted || a.stored != "") {
							continue
						}
						sent++
						c.asked = 0
						memory, spent := cost(func() { answer(t, at, a.what, handler, kind, version, a.object, a.stored) })
						if memory > memoryOf(kind) || spent > maxTime || c.asked > maxQuestions {
							t.Errorf("%s, %s, %s (%d bytes): %d MiB, %v, %d questions to the API server",
								path.Base(at), version, a.what, len(a.object), memory>>20, spent.Round(time.Millisecond), c.asked)
						}
					}
				})
			}
		})
	}
}

// TestFieldsOfAKindDoNotOccupyTheOperatorTogether has lists looked up in each other.
func TestFieldsOfAKindDoNotOccupyTheOperatorTogether(t *testing.T) {
	s, c := serve()
	c.pod = podWithManyContainers()
	subsets := `[` + times(`{"name":"s%d","tolerations":[{"key":"k","operator":"Exists"}],"patch":{"metadata":{"annotations":{"a":"b%d"}}}}`, 1_990) + `]`
	patching := `{"subsets":[` + times(`{"name":"s%d","patch":{"spec":{"containers":[{"name":"c%d","image":"j"}]}}}`, 450) + `]}`
	const hot = `"image":"i","upgradeStrategy":{"upgradeType":"HotUpgrade","hotUpgradeEmptyImage":"e"}`
	for name, tc := range map[string]struct {
		kind string
		put  map[string]string
	}{
		"partitions of many subsets": {"UnitedDeployment", map[string]string{
			"spec.topology.subsets": subsets, "spec.updateStrategy.manualUpdate.partitions": `{` + times(`"s%d":1`, 9_990) + `}`,
		}},
		"partitions of subsets that do not exist": {"UnitedDeployment", map[string]string{
			"spec.topology.subsets": subsets, "spec.updateStrategy.manualUpdate.partitions": `{` + times(`"x%d":1`, 9_990) + `}`,
		}},
		"a template of a megabyte": {"UnitedDeployment", map[string]string{
			"spec.topology.subsets": subsets,
			"spec.template.cloneSetTemplate.spec.template.metadata.annotations": `{` + times(`"a%d":"`+strings.Repeat("x", 200<<10)+`"`, 6) + `}`,
		}},
		"a template of many values that every subset patches": {"UnitedDeployment", map[string]string{
			"spec.topology": patching, "spec.template.cloneSetTemplate.spec.template.spec.containers": `[` +
				times(`{"name":"c%d","image":"i","env":[`+times(`{"name":"A"}`, 20)+`],"args":["a","b"]}`, 450) + `]`,
		}},
		"many containers that every subset patches": {"UnitedDeployment", map[string]string{
			"spec.topology": patching, "spec.template.cloneSetTemplate.spec.template.spec.containers": `[` +
				times(`{"name":"c%d","image":"i","command":["`+strings.Repeat("x", 600)+`"]}`, 1_500) + `]`,
		}},
		"patches that replace": {"UnitedDeployment", map[string]string{
			"spec.topology": `{"subsets":[` + times(`{"name":"s%d","patch":{"spec":{"$retainKeys":["containers"],"containers":[{"name":"c%d","image":"j"}]}}}`, 450) + `]}`,
			"spec.template.cloneSetTemplate.spec.template.metadata.annotations": `{` + times(`"a%d":"`+strings.Repeat("x", 200<<10)+`"`, 5) + `}`,
		}},
		"a template of a megabyte for StatefulSets": {"UnitedDeployment", map[string]string{
			"spec.topology": patching, "spec.template": `{"statefulSetTemplate":{"metadata":{"labels":{"app":"shop"}},"spec":{"template":{"metadata":{"labels":{"app":"shop"}},"spec":{"containers":[` +
				times(`{"name":"c%d","image":"i","env":[`+times(`{"name":"A"}`, 18)+`],"command":["`+strings.Repeat("x", 1900)+`"]}`, 450) + `]}}}}}`,
		}},
		"many subsets": {"UnitedDeployment", map[string]string{"spec.topology.subsets": subsets}},
		"regular expressions that are long once they are compiled": {"SidecarSet", map[string]string{
			"spec.containers": `[` + times(`{"name":"c%d","image":"i","resourcesPolicy":{"targetContainersMode":"sum","targetContainersNameRegex":"`+
				strings.Repeat(`(a{30}){30}`, 23)+`","resourcesExpr":{"limits":{"cpu":"cpu*10%"}}}}`, 1_900) + `]`,
		}},
		"many hot upgrades and volumes": {"SidecarSet", map[string]string{
			"spec.containers": `[` + times(`{"name":"c%d",`+hot+`}`, 1_990) + `]`,
			"spec.volumes":    `[` + times(`{"name":"v%d","emptyDir":{}}`, 1_990) + `]`,
		}},
		"containers that the pod does not have": {"ContainerRecreateRequest", map[string]string{"spec.containers": `[` + times(`{"name":"x%d"}`, 1_990) + `]`}},
		"containers that the pod has":           {"ContainerRecreateRequest", map[string]string{"spec.containers": `[` + times(`{"name":"c%d"}`, 1_990) + `]`}},
		"marks of sidecars that mean nothing": {"BroadcastJob", map[string]string{
			"spec.template.spec.containers": `[` + times(`{"name":"c%d","image":"i","env":[{"name":"KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT","value":"1"}]}`, 1_990) + `]`,
		}},
		"variables that are copied from nowhere": {"SidecarSet", map[string]string{
			"spec.containers": `[` + times(`{"name":"c%d","image":"i","transferEnv":[`+times(`{}`, 1_990)+`]}`, 15) + `]`,
		}},
		"tags of repositories": {"NodeImage", map[string]string{
			"spec.images": `{` + times(`"registry.example/r%d":{"tags":[`+times(`{"tag":"v%d"}`, 1_990)+`]}`, 9) + `}`,
		}},
		"bad tags of repositories": {"NodeImage", map[string]string{
			"spec.images": `{` + times(`"registry.example/r%d":{"tags":[`+times(`{"tag":"!"}`, 1_990)+`]}`, 9) + `}`,
		}},
		"nodes by name": {"ImagePullJob", map[string]string{"spec.selector": `{"names":[` + times(`"`+strings.Repeat("n", 250)+`%d"`, 9_990) + `]}`}},
	} {
		t.Run(name, func(t *testing.T) {
			kind := kindNamed(tc.kind)
			object := full(t, kind, kind.Storage)
			text, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			stored := string(text)
			for at, value := range tc.put {
				if err := json.Unmarshal([]byte(placed(t, object, strings.Split(at, "."), value)), &object); err != nil {
					t.Fatal(err)
				}
			}
			if text, err = json.Marshal(object); err != nil {
				t.Fatal(err)
			}
			hostile := string(text)
			requests := map[string]string{"create": "", "update": stored}
			if len(hostile) < maxStored {
				requests["update that keeps it"] = strings.Replace(hostile, `"spec":{`, `"spec":{"was":1,`, 1)
			}
			sent := 0
			for verb, stored := range requests {
				for at, handler := range s.handlers {
					if !strings.HasSuffix(at, "-"+kind.Lower()) {
						continue
					}
					sent++
					c.asked = 0
					memory, spent := cost(func() { answer(t, at, name, handler, kind, kind.Storage, hostile, stored) })
					if memory > maxMemory || spent > maxTime || c.asked > maxQuestions {
						t.Errorf("%s, %s (%d bytes): %d MiB, %v, %d questions to the API server",
							path.Base(at), verb, len(hostile), memory>>20, spent.Round(time.Millisecond), c.asked)
					}
				}
			}
			if sent == 0 {
				t.Error("no handler was sent anything")
			}
		})
	}
}

// podWithManyContainers is a pod with as many containers as the API server stores.
func podWithManyContainers() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "p1"}, Spec: corev1.PodSpec{NodeName: "n"}}
	for i := range 3_000 {
		name := fmt.Sprintf("c%d", i)
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, ContainerID: "containerd://" + name})
	}
	return pod
}
