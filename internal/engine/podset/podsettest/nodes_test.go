// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// agent is a workload with one pod for each node.
type agent struct{ version int8 }

// agentPlanner is its planner: with a surge it creates the next pod of a node first, otherwise it deletes the one before first. The other
// fields are mistakes that an exploration has to find.
type agentPlanner struct {
	surge, forgetsNewNodes, createsTwice, deletesTooEarly, ignoresLimit bool
}

const agentRevision = "agent-v"

func agentPod(node string, n int, version int8) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        fmt.Sprintf("agent-%s-%d", node, n),
			Labels:      map[string]string{shared.LabelControllerRevisionHash: fmt.Sprint(agentRevision, version)},
			Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{
			Containers:  []corev1.Container{{Name: "c", Image: fmt.Sprintf("agent:%d", version)}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
					{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
				}}},
			}}},
		},
	}
}

func (p agentPlanner) surplus() int {
	if p.surge {
		return 1
	}
	return 0
}

// step plans one node after the other. A pod whose node is gone is deleted; one whose node is not ready is left alone, as nobody could tell
// whether it runs.
func (p agentPlanner) step(w *State[agent]) (planning.Plan, agent) {
	var plan planning.Plan
	act := func(step planning.Step, pod *corev1.Pod, reason string) {
		plan.Actions = append(plan.Actions, planning.Action{Step: step, Slot: SlotOfNode(pod), Object: pod, Reason: reason})
	}
	unavailable := 0
	for _, node := range w.Nodes {
		if !slices.ContainsFunc(w.Pods, func(pod *corev1.Pod) bool { return NodeOf(pod) == node.Name && Available(pod, 0) }) {
			unavailable++
		}
	}
	for _, pod := range w.Pods {
		switch {
		case pod.DeletionTimestamp != nil:
		case w.Node(NodeOf(pod)) == nil:
			act(podset.StepDelete, pod, "NodeGone")
		case pod.Status.Phase == corev1.PodFailed:
			act(podset.StepDelete, pod, "Finished")
		}
	}
	for _, node := range w.Nodes {
		if p.forgetsNewNodes && !strings.HasSuffix(string(node.UID), "-1") {
			continue
		}
		p.stepOn(node, w, act, &unavailable)
	}
	return plan, w.Set
}

func (p agentPlanner) stepOn(node *corev1.Node, w *State[agent], act func(planning.Step, *corev1.Pod, string), unavailable *int) {
	create := func(reason string) {
		for n := 0; ; n++ {
			if pod := agentPod(node.Name, n, w.Set.version); w.Pod(pod.Name) == nil {
				act(podset.StepCreate, pod, reason)
				return
			}
		}
	}
	var old, current []*corev1.Pod
	for _, pod := range w.Pods {
		switch {
		case NodeOf(pod) != node.Name, pod.DeletionTimestamp != nil, pod.Status.Phase == corev1.PodFailed:
		case pod.Labels[shared.LabelControllerRevisionHash] == fmt.Sprint(agentRevision, w.Set.version):
			current = append(current, pod)
		default:
			old = append(old, pod)
		}
	}
	switch {
	case len(current)+len(old) == 0, p.createsTwice && len(current) == 1 && len(old) == 0:
		create("Missing")
	case len(current) == 0 && len(old) == 1 && p.surge:
		create("Surge")
	}
	for _, pod := range old {
		// Without a surge the pod goes when there is room; with one when its successor is available. A pod that is not available goes
		// in any case, unless its node says nothing.
		replaced := slices.ContainsFunc(current, func(c *corev1.Pod) bool { return Available(c, 0) })
		switch {
		case !Available(pod, 0) && (NodeReady(node) || !p.surge), replaced, p.deletesTooEarly:
			act(podset.StepDelete, pod, "Outdated")
		case !p.surge && (*unavailable == 0 || p.ignoresLimit):
			*unavailable++
			act(podset.StepDelete, pod, "Outdated")
		}
	}
}

func agentExploration(p agentPlanner, faults int8) Exploration[agent] {
	wanted := func(w *State[agent]) []planning.Slot {
		var slots []planning.Slot
		for _, node := range w.Nodes {
			slots = append(slots, planning.Slot(node.Name))
		}
		return slots
	}
	most := 1
	if p.surge {
		most = 0
	}
	return Exploration[agent]{
		Start:   []*State[agent]{{Set: agent{version: 1}, Nodes: []*corev1.Node{NewNode("a"), NewNode("b")}}},
		Step:    p.step,
		Cluster: Cluster{Nodes: []string{"a", "b", "c"}},
		Faults:  []Move{AddNode, RemoveNode, RecreateNode, CordonNode, UncordonNode, LoseNode},
		Budget:  Budget{Faults: faults, Edits: 1},
		Changes: func(w *State[agent]) []Change[agent] {
			return []Change[agent]{{Name: "the next version", To: agent{version: w.Set.version + 1}, Edit: true}}
		},
		Always: []Invariant[agent]{
			AtMostOnePodPerSlot(SlotOfNode, func(agent) int { return p.surplus() }),
			AtMostUnavailableSlots(wanted, SlotOfNode, func(agent) int { return most }, 0),
			OneActionEach[agent](),
		},
		Resting: func(w *State[agent]) error {
			for _, node := range w.Nodes {
				if !slices.ContainsFunc(w.Pods, func(pod *corev1.Pod) bool { return NodeOf(pod) == node.Name }) {
					return fmt.Errorf("node %s has no pod", node.Name)
				}
			}
			return nil
		},
		Goal: func(w *State[agent], plan planning.Plan) bool { return len(plan.Actions) == 0 && agentGoal(w) == nil },
	}
}

// agentGoal: every node has one pod, available and at the version, and there are no others.
func agentGoal(w *State[agent]) error {
	if len(w.Pods) != len(w.Nodes) {
		return fmt.Errorf("%d pods on %d nodes", len(w.Pods), len(w.Nodes))
	}
	for _, pod := range w.Pods {
		if w.Node(NodeOf(pod)) == nil || !Available(pod, 0) || !Runs(pod, fmt.Sprint(agentRevision, w.Set.version), &corev1.PodTemplateSpec{Spec: agentPod("", 0, w.Set.version).Spec}) {
			return fmt.Errorf("not there yet: %s", Describe(pod))
		}
	}
	return nil
}

// TestExplorationOfNodes lets three nodes come and go under a workload with one pod for each.
func TestExplorationOfNodes(t *testing.T) {
	comeAndGo := []Move{AddNode, RemoveNode, RecreateNode}
	cases := map[string]struct {
		planner agentPlanner
		faults  int8
		only    []Move // the faults that can happen; all of nodes if nil
		large   bool   // takes half a minute, and is left to full explorations
		want    string // part of the failure; none if empty
	}{
		"one pod after the other":                          {faults: 1},
		"the next pod first":                               {planner: agentPlanner{surge: true}, faults: 1},
		"one pod after the other, nodes come and go":       {faults: 2, only: comeAndGo},
		"the next pod first, nodes come and go":            {planner: agentPlanner{surge: true}, faults: 2, only: comeAndGo, large: true},
		"one pod after the other, two of all faults":       {faults: 2, large: true},
		"the next pod first, two of all faults":            {planner: agentPlanner{surge: true}, faults: 2, large: true},
		"nothing happens to the nodes":                     {},
		"forgets nodes that are re-created":                {planner: agentPlanner{forgetsNewNodes: true}, faults: 2, want: "nothing is planned, but node"},
		"creates two pods on a node":                       {planner: agentPlanner{createsTwice: true}, want: "one pod for each slot: pod agent-"},
		"deletes a pod before the next one is available":   {planner: agentPlanner{surge: true, deletesTooEarly: true}, want: "never more slots unavailable than allowed: "},
		"replaces the pods of all nodes at the same time ": {planner: agentPlanner{ignoresLimit: true}, want: "never more slots unavailable than allowed: "},
	}
	for name, tc := range cases {
		if tc.large && !sample.All() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			e := agentExploration(tc.planner, tc.faults)
			if tc.only != nil {
				e.Faults = tc.only
			}
			result := e.Run()
			t.Log(result)
			if tc.want == "" && result.Failure != "" || !strings.Contains(result.Failure, tc.want) {
				t.Errorf("want %q, got: %s", tc.want, result.Failure)
			}
			if tc.want == "" && tc.faults > 0 && (result.States < 1500 || result.Cut > 0) {
				t.Errorf("too little was explored: %s", result)
			}
		})
	}
}

// TestReductionLosesNoNodes compares explorations with and without reduction, where pods depend on the nodes that they run on.
func TestReductionLosesNoNodes(t *testing.T) {
	e := agentExploration(agentPlanner{}, 1)
	e.Faults = append(e.Faults, DeletePod, Evict)
	CompareWithPlain(t, e)
}

func TestScenarioOfNodes(t *testing.T) {
	e := agentExploration(agentPlanner{surge: true}, 0)
	do := func(node string, move Move) func(*State[agent]) error {
		return func(w *State[agent]) error { return Do(w, e.Cluster, node, move) }
	}
	Run(t, Scenario[agent]{
		Name: "one pod for each node", Start: e.Start[0], Step: e.Step, Cluster: e.Cluster, Always: e.Always,
		Acts: []Act[agent]{
			{Name: "a third node joins", Do: do("c", AddNode)},
			{Name: "the next version", Do: func(w *State[agent]) error { w.Set.version++; return nil }},
			{Name: "a node leaves", Do: do("b", RemoveNode)},
			{Name: "and comes back", Do: do("b", AddNode)},
			{Name: "a node is re-created under its name", Do: do("c", RecreateNode)},
			{Name: "a node is cordoned", Do: do("a", CordonNode)},
		},
		End: agentGoal,
	}, 20)
}

// TestMovesNeedTheirNode asks for what a kubelet would have to do on a node that is gone, lost or not to be scheduled on.
func TestMovesNeedTheirNode(t *testing.T) {
	c := Cluster{Nodes: []string{"a"}}
	picky := agentPod("a", 0, 1)
	picky.Spec.Tolerations = nil
	cases := map[string]struct {
		node []Move
		pod  *corev1.Pod
		up   bool // the pod runs already
		then Move
		can  bool
	}{
		"a pod starts on its node":                        {pod: agentPod("a", 0, 1), then: Start, can: true},
		"not on one that is gone":                         {node: []Move{RemoveNode}, pod: agentPod("a", 0, 1), then: Start},
		"nor on one that does not answer":                 {node: []Move{LoseNode}, pod: agentPod("a", 0, 1), then: Start},
		"one that tolerates it starts on a cordoned node": {node: []Move{CordonNode}, pod: agentPod("a", 0, 1), then: Start, can: true},
		"another one does not":                            {node: []Move{CordonNode}, pod: picky, then: Start},
		"until the node is uncordoned":                    {node: []Move{CordonNode, UncordonNode}, pod: picky, then: Start, can: true},
		"a pod of a node that is gone is collected":       {node: []Move{RemoveNode}, pod: agentPod("a", 0, 1), up: true, then: CollectOrphan, can: true},
		"one of a node that was re-created is not":        {node: []Move{RecreateNode}, pod: agentPod("a", 0, 1), up: true, then: CollectOrphan},
		"it becomes ready again":                          {node: []Move{RecreateNode}, pod: agentPod("a", 0, 1), up: true, then: BecomeReady, can: true},
		"a lost node tells nothing about its pods":        {node: []Move{LoseNode}, pod: agentPod("a", 0, 1), up: true, then: SyncReady},
		"until it is back":                                {node: []Move{LoseNode, RecoverNode}, pod: agentPod("a", 0, 1), up: true, then: SyncReady, can: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := &State[agent]{Nodes: []*corev1.Node{NewNode("a")}}
			if err := Apply(w, planning.Action{Step: podset.StepCreate, Object: tc.pod}); err != nil {
				t.Fatal(err)
			}
			if tc.up {
				for _, move := range []Move{Start, BecomeReady} {
					if err := Do(w, c, tc.pod.Name, move); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, move := range tc.node {
				if err := Do(w, c, "a", move); err != nil {
					t.Fatal(err)
				}
			}
			if err := Do(w, c, tc.pod.Name, tc.then); (err == nil) != tc.can {
				t.Errorf("%s: %v; possible should be %t", tc.then, err, tc.can)
			}
		})
	}
}

func TestNodesThatComeBackHaveAnotherUID(t *testing.T) {
	c := Cluster{Nodes: []string{"a"}}
	w := &State[agent]{Nodes: []*corev1.Node{NewNode("a")}}
	uids := []string{string(w.Nodes[0].UID)}
	for _, moves := range [][]Move{{RecreateNode}, {RemoveNode, AddNode}} {
		for _, move := range moves {
			if err := Do(w, c, "a", move); err != nil {
				t.Fatal(err)
			}
		}
		uids = append(uids, string(w.Nodes[0].UID))
	}
	slices.Sort(uids)
	if len(slices.Compact(uids)) != 3 {
		t.Errorf("UIDs repeat: %v", uids)
	}
}
