// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// metadataOf is the metadata of an object of a namespace, with labels that have so many bytes.
func metadataOf(name string, labels int) string {
	return `{"name":"` + name + `","namespace":"default","uid":"u","resourceVersion":"1","labels":{"app":"web",` + many(`"example.com/l%d":"v"`, labels) + `}}`
}

// named are n objects; object is given the name of each.
func named(prefix string, n int, object func(name string) string) [][]byte {
	all := make([][]byte, n)
	shared := []byte(object(prefix))
	for i := range all {
		// Most of them share their memory: only what is read of them is to be measured.
		all[i] = shared
		if i%50 == 0 {
			all[i] = []byte(object(fmt.Sprintf("%s%03d", prefix, i)))
		}
	}
	return all
}

// largeMarkers are PodProbeMarkers that a user may create: 500 in a namespace, as large as the API server stores them.
func largeMarkers() map[string][][]byte {
	const size = maxStored - 8<<10
	spec := func(probe string) string {
		return `{"selector":{"matchLabels":{"logs":"on"}},"probes":[` + times(`{"name":"p%d","containerName":"main","podConditionType":"example.com/c%d","probe":{`+probe+`}}`, 32) + `]}`
	}
	const short = `"exec":{"command":["/idle.sh"]}`
	small := func(name string) string {
		return `{"metadata":` + metadataOf(name, 10) + `,"spec":` + spec(short) + `}`
	}
	labeled := func(size int) func(string) string {
		return func(name string) string {
			return `{"metadata":` + metadataOf(name, size-8<<10) + `,"spec":` + spec(short) + `}`
		}
	}
	headers := `"httpGet":{"port":80,"httpHeaders":[` + many(`{"name":"a"}`, size/32-200) + `]}`
	return map[string][][]byte{
		"with many labels": named("m", 500, labeled(size)),
		"with long paths": named("m", 500, func(name string) string {
			return `{"metadata":` + metadataOf(name, 10) + `,"spec":` + spec(`"httpGet":{"port":80,"path":"`+strings.Repeat("x", size/32-200)+`"}`) + `}`
		}),
		"with many headers": named("m", 500, func(name string) string {
			return `{"metadata":` + metadataOf(name, 10) + `,"spec":` + spec(headers) + `}`
		}),
		"after many small ones": slices.Concat(named("a", 300, small), named("b", 200, labeled(size))),
		"and small ones":        slices.Concat(named("a", 30, small), named("b", 2, labeled(size)), named("c", 30, small), named("d", 2, labeled(size)), named("e", 400, small)),
		"of half that size":     named("m", 500, labeled(size/2)),
		"that have 20 KB each":  named("m", 500, labeled(20<<10)),
	}
}

// TestPodsWithLargeLabelsDoNotOccupyTheOperatorWhenTheyAreToBeDeleted: a CloneSet may name a hundred of them.
func TestPodsWithLargeLabelsDoNotOccupyTheOperatorWhenTheyAreToBeDeleted(t *testing.T) {
	s, c := servePods(t)
	marker, pod, _, _ := listed()
	var pods [][]byte
	var names []string
	large := metadataOf("NAME", maxStored-8<<10)
	for i := range 20 {
		name := fmt.Sprintf("p%02d", i)
		names = append(names, `"`+name+`"`)
		pods = append(pods, []byte(`{"metadata":`+strings.Replace(large, "NAME", name, 1)+`}`))
	}
	server := c.holds(t, map[schema.GroupVersionKind][][]byte{marker: nil, pod: pods})
	object := fill("CloneSet", "v1beta1", map[string]string{"SPEC": `,"scaleStrategy":{"podsToDelete":[` + strings.Join(names, ",") + `]}`})
	stored := fill("CloneSet", "v1beta1", nil)
	at := "/validate-apps-kruise-io-v1beta1-cloneset"
	memory, spent := cost(func() { answer(t, at, "names", s.handlers[at], kindNamed("CloneSet"), "v1beta1", object, stored) })
	t.Logf("%d KiB read, %d MiB, %v", server.Sent>>10, memory>>20, spent.Round(time.Millisecond))
	if memory > maxMemory || spent > maxTime || server.Sent == 0 {
		t.Errorf("%d MiB, %v", memory>>20, spent.Round(time.Millisecond))
	}
}

// TestManyLargeSidecarSetsDoNotOccupyTheOperatorWhenAnotherIsCreated: they are compared with it.
func TestManyLargeSidecarSetsDoNotOccupyTheOperatorWhenAnotherIsCreated(t *testing.T) {
	values := func(from int) string {
		return `{"key":"app","operator":"In","values":[` + strings.ReplaceAll(times(`"v%d"`, 900), `"v`, fmt.Sprintf(`"v%d`, from)) + `]}`
	}
	for name, other := range map[string]string{
		"with many labels": `{"metadata":` + metadataOf("other", maxStored-8<<10) + `,"spec":{"selector":{"matchLabels":{"app":"db"}}}}`,
		"with many values": `{"metadata":{"name":"other"},"spec":{"selector":{"matchExpressions":[` + values(1) + `]}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, c := servePods(t)
			sets := make([][]byte, 900)
			for i := range sets {
				sets[i] = []byte(other)
			}
			server := c.holds(t, map[schema.GroupVersionKind][][]byte{kindNamed("SidecarSet").GroupKind().WithVersion("v1beta1"): sets})
			object := strings.Replace(fillSet("logs", "v1beta1", map[string]string{"SPEC": `,"updateStrategy":{"type":"NotUpdate"},"injectionStrategy":{}`}), `"matchLabels":{"app":"web"}`, `"matchExpressions":[`+values(2)+`]`, 1)
			at := "/validate-apps-kruise-io-v1beta1-sidecarset"
			memory, spent := cost(func() { answer(t, at, name, s.handlers[at], kindNamed("SidecarSet"), "v1beta1", object, "") })
			t.Logf("%d KiB read, %d MiB, %v", server.Sent>>10, memory>>20, spent.Round(time.Millisecond))
			// Few may create SidecarSets.
			if memory > 2*maxMemory || spent > 2*maxTime || server.Sent == 0 {
				t.Errorf("%d MiB, %v", memory>>20, spent.Round(time.Millisecond))
			}
		})
	}
}
