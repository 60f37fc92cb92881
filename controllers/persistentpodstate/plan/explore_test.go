// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/place"
	"github.com/kruise-operator/kruise-operator/internal/testutil/walk"
)

// world is one pod on two nodes in zones of their own. Comparable, so that each state is visited once.
type world struct {
	nodes  [2]simulated
	pod    simulatedPod
	record int  // the recorded node; -1: none
	stored bool // the record has the zone of its node
	// was is the node where the pod was ready at the last pass; -1: none.
	was    int
	faults int
}

type simulated struct{ there, labeled, cordoned bool }

type simulatedPod struct {
	there, ready, going bool
	node                int // -1: pending
	selects             int // the zone of its selector; -1: none
}

var (
	names = [2]string{"n1", "n2"}
	zones = [2]string{"a", "b"}
)

func (w world) cluster() nodes {
	has := nodes{}
	for i, n := range w.nodes {
		if n.there {
			has[names[i]] = map[string]string{}
		}
		if n.there && n.labeled {
			has[names[i]][zone] = zones[i]
		}
	}
	return has
}

// state is the object with its record.
func (w world) state() *appsv1beta1.PersistentPodState {
	state := stateOf(nil)
	state.Spec.PersistentPodAnnotations, state.Spec.PreferredPersistentTopology = nil, nil
	if w.record >= 0 {
		at := appsv1beta1.PodState{NodeName: names[w.record]}
		if w.stored {
			at.NodeTopologyLabels = map[string]string{zone: zones[w.record]}
		}
		state.Status.PodStates = map[string]appsv1beta1.PodState{"db-0": at}
	}
	return state
}

func (w world) pods() []*corev1.Pod {
	if !w.pod.there {
		return nil
	}
	p := pod("db-0", "", w.pod.ready)
	if w.pod.node >= 0 {
		p.Spec.NodeName = names[w.pod.node]
	} else {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable})
	}
	if w.pod.going {
		p = terminating(p)
	}
	if w.pod.selects >= 0 {
		p.Annotations = map[string]string{shared.AnnotationInjectedPersistentPodState: "db"}
		p.Spec.NodeSelector = map[string]string{zone: zones[w.pod.selects]}
	}
	return []*corev1.Pod{p}
}

// fits: the scheduler may bind the pod to a node.
func (w world) fits(i int) bool {
	n := w.nodes[i]
	return n.there && !n.cordoned && (w.pod.selects < 0 || n.labeled && w.pod.selects == i)
}

// pass is a pass of the controller.
func (w world) pass(t *testing.T) world {
	t.Helper()
	status := Status(Parse(w.state()), snapshot(t, w.cluster(), 1, w.pods()...))
	next := w
	next.record, next.stored = -1, false
	if at, found := status.PodStates["db-0"]; found {
		next.record = strings.Index("12", at.NodeName[1:])
		next.stored = at.NodeTopologyLabels[zone] != ""
	}
	if w.pod.there && w.pod.ready && w.nodes[w.pod.node].there {
		next.was = w.pod.node
	}
	if next.record != next.was {
		t.Fatalf("recorded is %v, and the pod was ready on node %d last: %+v", status.PodStates, next.was, w)
	}
	if w.stored && next.record == w.record && !next.stored {
		t.Fatalf("the zone is forgotten: %+v", w)
	}
	stalled, _ := conditions.Find(conditions.From(status.Conditions), appsv1beta1.PersistentPodStateStalled)
	waits := w.pod.there && !w.pod.going && w.pod.node < 0 && w.pod.selects >= 0
	if waits != (stalled.Status == corev1.ConditionTrue) {
		t.Fatalf("a pod waits for its place: %v, and the status is %+v: %+v", waits, status, w)
	}
	return next
}

// create is a new pod, as the planner wants it.
func (w world) create(t *testing.T) world {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db-0"}}
	place.Return(p, w.state(), w.cluster())
	w.pod = simulatedPod{there: true, node: -1, selects: -1}
	if value, found := p.Spec.NodeSelector[zone]; found {
		w.pod.selects = strings.Index("ab", value)
	}
	exists := w.record >= 0 && w.nodes[w.record].there
	if w.stored && exists != (w.pod.selects == w.record) || !w.stored && w.pod.selects >= 0 {
		t.Fatalf("the new pod selects %d: %+v", w.pod.selects, w)
	}
	return w
}

// next are the states one step further: of the cluster, and by faults.
func (w world) next(t *testing.T) (all []world) {
	t.Helper()
	all = append(all, w.pass(t))
	with := func(change func(*world)) {
		other := w
		change(&other)
		all = append(all, other)
	}
	switch p := w.pod; {
	case !p.there:
		all = append(all, w.create(t))
	case p.going:
		with(func(w *world) { w.pod = simulatedPod{node: -1, selects: -1} })
	case p.node < 0:
		for i := range w.nodes {
			if w.fits(i) {
				with(func(w *world) { w.pod.node = i })
			}
		}
	case !p.ready && w.nodes[p.node].there:
		with(func(w *world) { w.pod.ready = true })
	}
	if w.faults == 0 {
		return all
	}
	w.faults--
	if w.pod.there {
		with(func(w *world) { w.pod.going = true })
		with(func(w *world) { w.pod.ready = false })
	}
	for i := range w.nodes {
		with(func(w *world) { w.nodes[i].labeled = !w.nodes[i].labeled })
		with(func(w *world) { w.nodes[i].cordoned = !w.nodes[i].cordoned })
		if w.nodes[i].there {
			with(func(w *world) { w.nodes[i].there = false })
		} else {
			with(func(w *world) { w.nodes[i] = simulated{there: true, labeled: true} })
		}
	}
	return all
}

// TestEveryPodFindsItsPlaceOrIsNamed visits each state of a pod on two nodes that come and go, are cordoned, and lose their labels. The record is
// always the last place where the pod was ready. A new pod selects it while there is such a node. Who waits for a place is named.
func TestEveryPodFindsItsPlaceOrIsNamed(t *testing.T) {
	start := world{
		nodes: [2]simulated{{there: true, labeled: true}, {there: true, labeled: true}}, pod: simulatedPod{node: -1, selects: -1}, record: -1, was: -1, faults: 3,
	}
	states := walk.From(start, func(w world) world { return w }, func(w world) []world { return w.next(t) })
	t.Logf("%d states", states)
}
