// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// metadataOf is the metadata of a namespaced object with so many bytes of labels.
func metadataOf(name string, labels int) string {
	return `{"name":"` + name + `","namespace":"default","uid":"u","resourceVersion":"1","labels":{"app":"web",` + many(`"example.com/l%d":"v"`, labels) + `}}`
}

// named are n objects; object is given the name of each.
func named(prefix string, n int, object func(name string) string) [][]byte {
	all := make([][]byte, n)
	shared := []byte(object(prefix))
	for i := range all {
		// Most share their memory, so the measurement sees only the reads.
		all[i] = shared
		if i%50 == 0 {
			all[i] = []byte(object(fmt.Sprintf("%s%03d", prefix, i)))
		}
	}
	return all
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
