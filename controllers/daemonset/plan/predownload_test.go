// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"
)

// Of the nodes that the partition lets move, those that have the images go first. Which nodes these are stays a matter of their names.
func TestNodesThatHaveTheImagesMoveFirst(t *testing.T) {
	moved := func(w *simulation, ahead ...string) []string {
		s := w.seen()
		for i := range s.Pods {
			s.Pods[i].ImagesPreDownloaded = slices.Contains(ahead, s.Pods[i].Object.Spec.NodeName)
		}
		var nodes []string
		for _, action := range Plan(w.spec(), s).Actions {
			nodes = append(nodes, string(action.Slot))
		}
		return nodes
	}
	w := newSimulation(t, nodeNames(5), maxUnavailable(1))
	w.do(image("2"))
	if got := moved(w); !slices.Equal(got, []string{"n4"}) {
		t.Errorf("without images %v", got)
	}
	if got := moved(w, "n1"); !slices.Equal(got, []string{"n1"}) {
		t.Errorf("with the images on n1: %v", got)
	}
	w.do(partition(3))
	if got := moved(w, "n1"); !slices.Equal(got, []string{"n4"}) {
		t.Errorf("with the images on n1, which the partition keeps: %v", got)
	}
}
