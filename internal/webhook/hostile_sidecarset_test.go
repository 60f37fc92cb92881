// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
	"github.com/kruise-operator/kruise-operator/internal/webhook"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// goodSet is a valid SidecarSet; hostile values go to the markers.
const goodSet = `{"apiVersion":"apps.kruise.io/VERSION","kind":"SidecarSet","metadata":{"name":"NAME"METADATA},"spec":{"selector":{"matchLabels":{"app":"web"}SELECTOR},` +
	`"containers":[{"name":"agent","image":"example/agent:1"CONTAINER}CONTAINERS]SPEC}}`

func fillSet(name, version string, at map[string]string) string {
	pairs := []string{"VERSION", version, "NAME", name}
	for _, marker := range []string{"METADATA", "SELECTOR", "CONTAINERS", "CONTAINER", "SPEC"} {
		pairs = append(pairs, marker, at[marker])
	}
	return strings.NewReplacer(pairs...).Replace(goodSet)
}

// hostileSets are bodies of SidecarSets.
func hostileSets() map[string]map[string]string {
	return map[string]map[string]string{
		"as many containers as may be":        {"CONTAINERS": "," + times(`{"name":"c%d","image":"i"}`, 1_990)},
		"as many empty containers as may be":  {"CONTAINERS": "," + times(`{}`, 1_990)},
		"as many hot containers as may be":    {"CONTAINERS": "," + times(`{"name":"c%d","image":"i","upgradeStrategy":{"upgradeType":"HotUpgrade"}}`, 1_990)},
		"as many init containers as may be":   {"SPEC": `,"initContainers":[` + times(`{"name":"agent","restartPolicy":"Always"}`, 1_990) + `]`},
		"as many volumes as may be":           {"SPEC": `,"volumes":[` + times(`{"name":"v%d","hostPath":{"path":"/a"}}`, 1_990) + `]`},
		"as many variables to copy as may be": {"CONTAINER": `,"transferEnv":[` + times(`{"sourceContainerName":"a","envNames":[`+times(`"E%d"`, 9_900)+`]}`, 3) + `]`},
		"as many copies as may be":            {"CONTAINER": `,"transferEnv":[` + times(`{"sourceContainerNameFrom":{"fieldRef":{"fieldPath":"metadata.labels['!!']"}}}`, 1_990) + `]`},
		"a long expression": {
			"CONTAINER": `,"resourcesPolicy":{"targetContainersMode":"sum","resourcesExpr":{"limits":{"cpu":"` + strings.Repeat("(", 400_000) + `"}}}`,
		},
		"a number with a large exponent": {"CONTAINER": `,"resourcesPolicy":{"targetContainersMode":"sum","resourcesExpr":{"limits":{"cpu":"1e999999999*cpu"}}}`},
		"large numbers":                  {"CONTAINER": `,"resourcesPolicy":{"targetContainersMode":"sum","resourcesExpr":{"limits":{"cpu":"` + strings.Repeat("1e999*", 160) + `cpu"}}}`},
		"as many expressions as may be": {
			"CONTAINERS": "," + times(`{"name":"c%d","image":"i","resourcesPolicy":{"targetContainersMode":"sum","resourcesExpr":{"limits":{"cpu":"`+strings.Repeat("1e99*", 60)+`cpu"}}}}`, 1_900),
		},
		"a long regular expression":       {"CONTAINER": `,"resourcesPolicy":{"targetContainersMode":"sum","targetContainersNameRegex":"` + strings.Repeat("(a|b)", 60_000) + `","resourcesExpr":{"limits":{"cpu":"cpu"}}}`},
		"a regular expression that grows": {"CONTAINER": `,"resourcesPolicy":{"targetContainersMode":"sum","targetContainersNameRegex":"((((a{1,9}){1,9}){1,9}){1,9}){1,9}","resourcesExpr":{"limits":{"cpu":"cpu"}}}`},
		"patches":                         {"SPEC": `,"patchPodMetadata":[` + times(`{"annotations":{"!":"x"},"patchPolicy":"x"}`, 1_990) + `]`},
		"as many annotations as may be":   {"SPEC": `,"patchPodMetadata":[` + times(`{"annotations":{`+times(`"!%d":"x"`, 190)+`},"patchPolicy":"MergePatchJson"}`, 99) + `]`},
		"lists in lists to merge":         {"SPEC": `,"patchPodMetadata":[{"annotations":{"a":"` + strings.Repeat("[", 400_000) + `"},"patchPolicy":"MergePatchJson"}]`},
		"values of a selector":            {"SELECTOR": `,"matchExpressions":[` + times(`{"key":"app","operator":"In","values":[`+times(`"v%d"`, 9_900)+`]}`, 3) + `]`},
		"values of selectors that agree":  {"SELECTOR": `,"matchExpressions":[` + times(`{"key":"tier","operator":"In","values":[`+times(`"v%d"`, 400)+`]}`, 2) + `]`},
		"expressions of a selector":       {"SELECTOR": `,"matchExpressions":[` + times(`{"key":"a%d","operator":"Exists"}`, 990) + `]`},
		"namespaces":                      {"SPEC": `,"namespaceSelector":{"matchExpressions":[{"key":"a","operator":"In","values":[` + times(`"!%d"`, 9_900) + `]}]}`},
		"annotations":                     {"METADATA": `,"annotations":{` + times(`"a%d":""`, 9_900) + `}`},
		"kept fields of another version":  {"METADATA": `,"annotations":{"operator.kruise.io/conversion-data":"{\"apiVersion\":\"apps.kruise.io/v1alpha1\",\"fields\":{\"namespaceSelector\":{\"matchExpressions\":[` + times(`{}`, 100_000) + `]}}}"}`},
		"unknown fields":                  {"CONTAINER": "," + times(`"f%d":{"a":0}`, 9_900)},
	}
}

// crowd is an API server with other SidecarSets, equally large, for the same pods.
type crowd struct {
	*apiServer
	others []unstructured.Unstructured
}

func (c *crowd) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if sets, is := list.(*unstructured.UnstructuredList); is && sets.GetKind() == "SidecarSetList" {
		c.asked++
		sets.Items = c.others
		return nil
	}
	return c.apiServer.List(ctx, list, options...)
}

// TestALargeSidecarSetDoesNotOccupyTheOperator sends hostile SidecarSets beside twenty
// equally large ones: half of the bodies in one of three ways a day.
func TestALargeSidecarSetDoesNotOccupyTheOperator(t *testing.T) {
	sent, turn := 0, 0
	all := controllers.Table()
	kind := all[slices.IndexFunc(all, func(k kinds.Kind) bool { return k.Name == "SidecarSet" })]
	bodies := hostileSets()
	for _, name := range slices.Sorted(maps.Keys(bodies)) {
		put := bodies[name]
		other := unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(fillSet("other", "v1beta1", put)), &other.Object); err != nil {
			t.Fatal(err)
		}
		c := &crowd{apiServer: &apiServer{}}
		for range 20 {
			c.others = append(c.others, other)
		}
		s, _ := serve()
		clear(s.handlers)
		webhook.Register(s, controllers.All(), admit.Deps{Client: c, Gates: features.Set{features.SidecarSetPatchPodMetadataDefaultsAllowed: true}})
		stored := fillSet("logs", "v1beta1", nil)
		for _, request := range []struct{ version, stored string }{{"v1beta1", ""}, {"v1beta1", stored}, {"v1alpha1", stored}} {
			if turn++; !sample.Has(turn, 6) {
				continue
			}
			object := fillSet("logs", request.version, put)
			if len(object) > hostileSize {
				t.Fatalf("%s: %d bytes", name, len(object))
			}
			for at, handler := range s.handlers {
				if !strings.HasSuffix(at, "sidecarset") && at != "/convert" {
					continue
				}
				sent++
				c.asked = 0
				memory, spent := cost(func() { answer(t, at, name, handler, kind, request.version, object, request.stored) })
				if memory > maxMemory || spent > maxTime || c.asked > maxQuestions {
					t.Errorf("%s with %s (%d bytes): %d MiB, %v, %d questions to the API server", path.Base(at), name, len(object), memory>>20, spent.Round(time.Millisecond), c.asked)
				}
			}
		}
	}
	if sent == 0 {
		t.Error("no handler was sent anything")
	}
}
