// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
)

// spreadOver gives the pods subsets a, b and so on; a limit below 0 is none.
func spreadOver(limits ...int) func(*simulation) {
	return func(w *simulation) { w.spread = subsetsOf(w.t, limits...) }
}

func subsetsOf(t *testing.T, limits ...int) *spread.Spread {
	t.Helper()
	ws := &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ws"}}
	ws.Spec.TargetReference = &appsv1beta1.TargetReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web"}
	for i, limit := range limits {
		sub := appsv1beta1.WorkloadSpreadSubset{Name: string(rune('a' + i))}
		if limit >= 0 {
			sub.MaxReplicas = ptr.To(intstr.FromInt(limit))
		}
		ws.Spec.Subsets = append(ws.Spec.Subsets, sub)
	}
	s, err := spread.Parse(ws)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// isSplit: the first of two subsets has as many pods as it may, and the other one the rest. Running pods are not moved: one that is lost when the
// set shrinks may leave the first with fewer.
func (l *layout) isSplit(w *podsettest.State[setFields]) bool {
	if l.spread == nil {
		return true
	}
	var staying []*corev1.Pod
	for _, pod := range w.Pods {
		if stays(w.Set, pod) {
			staying = append(staying, pod)
		}
	}
	counts, replicas := l.spread.Counts(staying), int(w.Set.replicas)
	first, exact := min(l.spread.Limit(0, replicas), replicas), l.scalings == 0
	return counts[0]+counts[1] == replicas && counts[0] <= first && (!exact || counts[0] == first)
}

// TestExploreWithASpread: from every state that a CloneSet over two subsets can get into, it comes to the split of its limits.
func TestExploreWithASpread(t *testing.T) {
	good := []string{"web:1", "web:2"}
	lost := []podsettest.Move{podsettest.Crash, podsettest.DeletePod, podsettest.RequestDeletion}
	of := func(l *layout) *layout {
		l.images, l.edits, l.spread, l.anonymous, l.orders = good, 1, subsetsOf(t, 2, -1), true, 6
		return l
	}
	podsettest.ExploreEach(t, map[string]*layout{
		"recreate, four pods and a surge, with faults": of(&layout{policy: shared.RecreatePods, replicas: 4, maxSurge: 1, faults: lost}),
		"recreate, two pods are scaled, with faults":   of(&layout{policy: shared.RecreatePods, replicas: 2, maxUnavailable: 1, scalings: 1, faults: lost}),
		"in place, four pods and a surge":              of(&layout{policy: shared.InPlaceIfPossible, replicas: 4, maxSurge: 1}),
	}, (*layout).size, (*layout).exploration)
}

// split is how many pods each subset has, and how many have none.
func (w *simulation) split() string {
	counts, none := make([]int, len(w.spread.Subsets)), 0
	for _, pod := range w.Pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		if i, _ := w.spread.SubsetOf(pod); i != spread.None {
			counts[i]++
		} else {
			none++
		}
	}
	return fmt.Sprint(counts, none)
}

func TestSubsetsAreFilledAndEmptiedInOrder(t *testing.T) {
	w := newSimulation(t, 6, spreadOver(3, 2, -1))
	w.expect("6 pods", w.split(), "[3 2 1] 0")
	w.rest(replicas(4))
	w.expect("4 pods", w.split(), "[3 1 0] 0")
	w.rest(replicas(7))
	w.expect("7 pods", w.split(), "[3 2 2] 0")
}

// Q05: the split of 2 and 8 was lost after an update.
func TestTheSplitIsTheSameAfterEachUpdate(t *testing.T) {
	for name, how := range map[string][]func(*simulation){
		"with a surge":          {maxSurge(2), maxUnavailable(0)},
		"without a surge":       {maxUnavailable(1)},
		"in place":              {inPlace, maxUnavailable(2)},
		"in place with a surge": {inPlace, maxSurge(2), maxUnavailable(0)},
		"many pods at a time":   {maxSurge("100%"), maxUnavailable("50%")},
	} {
		t.Run(name, func(t *testing.T) {
			for _, limits := range [][]int{{2, 8}, {2, -1}} {
				w := newSimulation(t, 10, append(how, spreadOver(limits...))...)
				w.expect("at first", w.split(), "[2 8] 0")
				for i := range 5 {
					w.rest(image(strconv.Itoa(i + 2)))
					w.expect("after an update", w.split(), "[2 8] 0")
				}
			}
		})
	}
}

func TestAPartitionKeepsTheSplit(t *testing.T) {
	w := newSimulation(t, 10, maxSurge(1), maxUnavailable(1), spreadOver(2, 8))
	for _, p := range []int{8, 5, 2, 0} {
		w.rest(partition(p), image("2"))
		w.expect(fmt.Sprint("partition ", p), w.split(), "[2 8] 0")
	}
}

func TestALostPodIsReplacedInItsSubset(t *testing.T) {
	w := newSimulation(t, 4, maxUnavailable(1), spreadOver(2, -1))
	for _, id := range []string{"p01", "p03"} {
		w.move(id, podsettest.DeletePod)
		w.rest()
		w.expect("after the loss of "+id, w.split(), "[2 2] 0")
	}
	w.rest(inPlace, paused(true), image("2"), ask("p02"))
	w.expect("while an update in place is paused", w.split(), "[2 2] 0")
}
