// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Exploration visits every world that can be reached.
type Exploration[W comparable] struct {
	// Start are the worlds to begin from.
	Start []*World[W]
	// Step is the planner under test.
	Step Step[W]
	// Cluster is what happens around it.
	Cluster Cluster
	// Harm are the harmful moves that can happen, MaxHarm how many of them in one history.
	Harm    []Move
	MaxHarm int
	// Changes are what the user can do next. May be nil.
	Changes func(*World[W]) []Change[W]
	// Always holds in every step of the controller.
	Always []Invariant[W]
	// Goal says that the world is as it should be. From every world some goal must be reachable without harm and without the user
	// changing anything.
	Goal func(w *World[W], plan podset.Plan) bool
	// Canonical makes worlds one that differ only in which pod is which. It may reorder and rename w.Pods; the objects in it
	// must not be changed. May be nil.
	Canonical func(w *World[W])
	// MaxStates is how many worlds are visited at most. When omitted, it is a million.
	MaxStates int
	// MayCut says that not visiting all worlds is no failure.
	MayCut bool
	// Workers is how many worlds are expanded at the same time. When omitted, it is two.
	Workers int
}

// Change is something the user does to the workload.
type Change[W any] struct {
	Name string
	To   W
}

// Result is what an exploration has seen.
type Result struct {
	// States are the different worlds, Transitions the steps between them, Cut the worlds that were seen and not visited because of
	// MaxStates.
	States, Transitions, Cut int
	// Pods is how many different pods there were.
	Pods int
	// Failure is the first thing that was wrong, with the shortest history that leads to it; empty if all is well.
	Failure string
}

func (r Result) String() string {
	return fmt.Sprintf("explored %d states, %d transitions, cut %d (%d different pods)", r.States, r.Transitions, r.Cut, r.Pods)
}

// Explore runs the exploration and fails the test if anything is wrong.
func Explore[W comparable](t testing.TB, e Exploration[W]) Result {
	t.Helper()
	result := e.Run()
	t.Log(result)
	if result.Failure != "" {
		t.Error(result.Failure)
	}
	if result.Cut > 0 && !e.MayCut {
		t.Errorf("%d worlds were not visited: the limit of %d is too low for what is explored", result.Cut, e.MaxStates)
	}
	return result
}

// batch is how many worlds are expanded before their successors are stored.
const batch = 4096

// Run runs the exploration.
func (e Exploration[W]) Run() Result {
	if e.MaxStates == 0 {
		e.MaxStates = 1_000_000
	}
	if e.Workers == 0 {
		e.Workers = 2
	}
	x := &explorer[W]{Exploration: e, atlas: newAtlas(e.Cluster), index: map[state[W]]int32{}}
	for _, w := range e.Start {
		s, err := x.state(0, nil, nil, e.normalized(w))
		if err != nil {
			return Result{Failure: err.Error()}
		}
		x.visit(s, -1, 0)
	}
	for begin := 0; begin < len(x.nodes) && x.failure == ""; {
		end := min(len(x.nodes), begin+batch)
		x.store(begin, x.expandAll(begin, end))
		begin = end
	}
	if x.failure == "" {
		x.checkSpinning()
	}
	if x.failure == "" {
		x.checkGoal()
	}
	return Result{
		States: len(x.nodes), Transitions: x.transitions, Cut: x.cut, Pods: len(x.atlas.pods.objects) - 1, Failure: x.failure,
	}
}

// normalized is a copy of a world whose pods are as the explorer keeps them.
func (e Exploration[W]) normalized(w *World[W]) *World[W] {
	w = w.clone()
	for i, p := range w.Pods {
		w.Pods[i] = e.Cluster.normalize(p.DeepCopy())
	}
	return w
}

// explorer is one run.
type explorer[W comparable] struct {
	Exploration[W]
	atlas *atlas
	index map[state[W]]int32
	nodes []node[W]
	// forward are the targets of edges that happen by themselves, of node i from nodes[i].forward on.
	forward     []int32
	transitions int
	cut         int
	failure     string
}

// node is a visited world.
type node[W comparable] struct {
	state state[W]
	// parent is the world it was first reached from, by the edge with this number; -1 for a start.
	parent, edge int32
	// forward is where its edges begin in explorer.forward.
	forward int
	// whole is where the whole plan leads; -1 when it is empty.
	whole int32
	// goal: the world is as it should be. open: it leads to worlds that were not visited.
	goal, open bool
	// idle: nothing is planned. waits: and no time is set to look again.
	idle, waits bool
	// later are worlds that only time leads to.
	later []int32
}

// edge is one way out of a world.
type edge[W comparable] struct {
	to state[W]
	// label describes it; costly, and needed only for the history of a failure.
	label func() string
	// forward: it happens by itself, sooner or later. whole: it is the whole plan. time: nothing but time passes.
	forward, whole, time bool
	// failure is what is wrong with it.
	failure string
}

// expansion is a world with its ways out.
type expansion[W comparable] struct {
	edges       []edge[W]
	goal        bool
	idle, waits bool
	failure     string
}

// expandAll expands the nodes from begin to end, in parallel.
func (x *explorer[W]) expandAll(begin, end int) []expansion[W] {
	results := make([]expansion[W], end-begin)
	var group sync.WaitGroup
	for worker := range x.Workers {
		group.Go(func() {
			for i := begin + worker; i < end; i += x.Workers {
				results[i-begin] = x.expand(i)
			}
		})
	}
	group.Wait()
	return results
}

// expand plans in a world and finds everything that can happen next.
func (x *explorer[W]) expand(i int) expansion[W] {
	s := &x.nodes[i].state
	w := expand(x.atlas, s)
	plan, after := x.Step(w)
	out := expansion[W]{
		goal: x.Goal(w, plan), idle: len(plan.Actions) == 0 && after == w.Set, waits: plan.RecheckAfter == 0,
	}
	if i%32 == 0 {
		for _, p := range s.pods {
			if p != 0 && !x.atlas.pods.intact(p) {
				out.failure = "the planner changed a pod that it was given to read"
				return out
			}
		}
	}
	add := func(e edge[W]) { out.edges = append(out.edges, e) }

	whole := w.clone()
	var wrong error
	for _, action := range plan.Actions {
		if err := Apply(whole, action); err != nil && wrong == nil {
			wrong = err
		}
	}
	if !out.idle {
		whole.Set = after
		e := x.event(s, w, whole, plan.Actions, wrong)
		e.forward, e.whole = true, true
		e.label = func() string { return "the controller: " + describePlan(plan) }
		add(e)
	}
	for _, action := range plan.Actions {
		if len(plan.Actions) > 1 || after != w.Set {
			single := w.clone()
			err := Apply(single, action)
			e := x.event(s, w, single, []podset.Action{action}, err)
			e.forward = true
			e.label = func() string { return "the controller, only: " + DescribeAction(action) }
			add(e)
		}
		for _, half := range Halves[W](action) {
			partly := w.clone()
			err := half(partly)
			e := x.event(s, w, partly, []podset.Action{action}, err)
			e.label = func() string { return "the controller, half of: " + DescribeAction(action) }
			add(e)
		}
	}
	x.clusterMoves(s, w, plan.RecheckAfter > 0, add)
	if x.Changes != nil {
		for _, change := range x.Changes(w) {
			next := *s
			next.set = change.To
			add(edge[W]{to: x.canonical(next), label: func() string { return "the user: " + change.Name }})
		}
	}
	return out
}

// clusterMoves adds what can happen without the controller and the user.
func (x *explorer[W]) clusterMoves(s *state[W], w *World[W], recheck bool, add func(edge[W])) {
	for at, pod := range s.pods {
		if pod == 0 {
			continue
		}
		for _, m := range x.atlas.movesOf(pod) {
			harmful := m.move.harmful()
			if harmful && (int(s.harm) >= x.MaxHarm || !slices.Contains(x.Harm, m.move)) {
				continue
			}
			next := *s
			if harmful {
				next.harm++
			}
			next.pods[at] = m.to
			name := w.Pods[at].Name
			if m.to == 0 {
				gone := w.clone()
				gone.remove(name)
				var err error
				if next, err = x.state(next.harm, s, w, gone); err != nil {
					add(edge[W]{failure: err.Error(), label: func() string { return name }})
					continue
				}
			} else {
				next = x.canonical(next)
			}
			isTime := m.move == Elapse
			add(edge[W]{
				to: next, label: func() string { return name + " " + string(m.move) },
				forward: !harmful && (!isTime || recheck), time: isTime,
			})
		}
	}
	for at, claim := range w.Claims {
		if orphaned(w, claim) {
			next := *s
			copy(next.claims[at:], next.claims[at+1:])
			next.claims[maxObjects-1] = 0
			add(edge[W]{to: next, label: func() string { return claim.Name + ": " + string(Collect) }, forward: true})
		}
	}
}

// event is the edge of a step of the controller, judged by the invariants.
func (x *explorer[W]) event(s *state[W], before, after *World[W], actions []podset.Action, wrong error) edge[W] {
	if wrong != nil {
		return edge[W]{to: *s, failure: wrong.Error()}
	}
	for i, p := range after.Pods {
		if j, found := before.find(p.Name); !found || before.Pods[j] != p {
			after.Pods[i] = x.Cluster.normalize(p)
		}
	}
	for _, invariant := range x.Always {
		if err := invariant.Check(Event[W]{Before: before, After: after, Actions: actions}); err != nil {
			return edge[W]{to: *s, failure: invariant.Name + ": " + err.Error()}
		}
	}
	to, err := x.state(s.harm, s, before, after)
	if err != nil {
		return edge[W]{to: *s, failure: err.Error()}
	}
	return edge[W]{to: to}
}

// state makes numbers of a world that came from another one, whose objects are known; both are nil for a start.
func (x *explorer[W]) state(harm uint8, from *state[W], before, w *World[W]) (state[W], error) {
	if x.Canonical != nil {
		w = w.clone()
		x.Canonical(w)
	}
	to := state[W]{set: w.Set, harm: harm}
	if len(w.Pods) > maxObjects || len(w.Claims) > maxObjects {
		return to, fmt.Errorf("a world of %d pods and %d claims; %d are the limit of an exploration", len(w.Pods), len(w.Claims), maxObjects)
	}
	for i, p := range w.Pods {
		if before != nil {
			if j := slices.Index(before.Pods, p); j >= 0 {
				to.pods[i] = from.pods[j]
				continue
			}
		}
		to.pods[i] = x.atlas.pods.add(p)
	}
	for i, c := range w.Claims {
		if before != nil {
			if j := slices.Index(before.Claims, c); j >= 0 {
				to.claims[i] = from.claims[j]
				continue
			}
		}
		to.claims[i] = x.atlas.claims.add(c)
	}
	return to, nil
}

func (x *explorer[W]) canonical(s state[W]) state[W] {
	if x.Canonical == nil {
		return s
	}
	canonical, err := x.state(s.harm, nil, nil, expand(x.atlas, &s))
	if err != nil {
		return s
	}
	return canonical
}

// visit returns the number of a world, a new one if it was never met; -1 when there is no room.
func (x *explorer[W]) visit(s state[W], parent, edge int32) int32 {
	if known, found := x.index[s]; found {
		return known
	}
	if len(x.nodes) >= x.MaxStates {
		x.cut++
		return -1
	}
	n := int32(len(x.nodes))
	x.index[s] = n
	x.nodes = append(x.nodes, node[W]{state: s, parent: parent, edge: edge, whole: -1})
	return n
}

// store takes over what the nodes from begin on lead to.
func (x *explorer[W]) store(begin int, results []expansion[W]) {
	for i, result := range results {
		n := int32(begin + i)
		x.nodes[n].goal, x.nodes[n].idle, x.nodes[n].waits = result.goal, result.idle, result.waits
		x.nodes[n].forward = len(x.forward)
		if result.failure != "" {
			x.fail(n, result.failure)
			return
		}
		for number, e := range result.edges {
			if e.failure != "" {
				x.fail(n, e.label()+"\n"+e.failure)
				return
			}
			x.transitions++
			to := x.visit(e.to, n, int32(number))
			switch {
			case to < 0:
				x.nodes[n].open = true
				continue
			case e.whole:
				x.nodes[n].whole = to
			case e.time:
				x.nodes[n].later = append(x.nodes[n].later, to)
			}
			if e.forward {
				x.forward = append(x.forward, to)
			}
		}
	}
}

// checkSpinning finds worlds that the controller alone turns in circles, and worlds that nobody looks at when it is time.
func (x *explorer[W]) checkSpinning() {
	const unknown, onPath, done = 0, 1, 2
	mark := make([]uint8, len(x.nodes))
	for start := range x.nodes {
		var path []int32
		n := int32(start)
		for n >= 0 && mark[n] == unknown {
			mark[n] = onPath
			path = append(path, n)
			n = x.nodes[n].whole
		}
		if n >= 0 && mark[n] == onPath {
			x.fail(n, "the controller turns in circles: one pass after the other it acts, and comes back to this world")
			return
		}
		for _, p := range path {
			mark[p] = done
		}
	}
	for n := range x.nodes {
		if node := &x.nodes[n]; node.idle && node.waits {
			for _, later := range node.later {
				if !x.nodes[later].idle {
					x.fail(int32(n), "when time has passed there is something to do, but nothing asks to look again\nthen: "+x.planAt(later))
					return
				}
			}
		}
	}
}

// checkGoal finds worlds from which no goal can be reached any more.
func (x *explorer[W]) checkGoal() {
	// backward are the edges the other way round: those to node i are from start[i] on.
	start := make([]int, len(x.nodes)+1)
	for _, to := range x.forward {
		start[to+1]++
	}
	for i := range x.nodes {
		start[i+1] += start[i]
	}
	backward := make([]int32, len(x.forward))
	next := slices.Clone(start)
	for n := range x.nodes {
		end := len(x.forward)
		if n+1 < len(x.nodes) {
			end = x.nodes[n+1].forward
		}
		for _, to := range x.forward[x.nodes[n].forward:end] {
			backward[next[to]] = int32(n)
			next[to]++
		}
	}
	reaches := make([]bool, len(x.nodes))
	var queue []int32
	reach := func(n int32) {
		if !reaches[n] {
			reaches[n] = true
			queue = append(queue, n)
		}
	}
	for n := range x.nodes {
		if x.nodes[n].goal || x.nodes[n].open {
			reach(int32(n))
		}
	}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, from := range backward[start[n]:start[n+1]] {
			reach(from)
		}
	}
	if n := slices.Index(reaches, false); n >= 0 {
		stuck := 0
		for _, r := range reaches {
			if !r {
				stuck++
			}
		}
		x.fail(int32(n), fmt.Sprintf("from here no goal can be reached (nor from %d others)\n%s", stuck-1, x.planAt(int32(n))))
	}
}

// planAt describes what is planned in a world.
func (x *explorer[W]) planAt(n int32) string {
	plan, _ := x.Step(expand(x.atlas, &x.nodes[n].state))
	return "planned: " + describePlan(plan)
}

// fail records a failure with the shortest history that leads to it.
func (x *explorer[W]) fail(n int32, what string) {
	var numbers []int32
	for at := n; at >= 0; at = x.nodes[at].parent {
		numbers = append(numbers, at)
	}
	slices.Reverse(numbers)
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n\nafter %d steps:\n%s\n", what, len(numbers)-1, indent(expand(x.atlas, &x.nodes[numbers[0]].state).String()))
	for i, at := range numbers[1:] {
		before := expand(x.atlas, &x.nodes[numbers[i]].state)
		after := expand(x.atlas, &x.nodes[at].state)
		label := x.expand(int(numbers[i])).edges[x.nodes[at].edge].label()
		fmt.Fprintf(&text, "%d. %s\n", i+1, label)
		if before.Set != after.Set {
			fmt.Fprintf(&text, "        %+v\n", after.Set)
		}
		for _, p := range after.Pods {
			if old := before.Pod(p.Name); old != p {
				fmt.Fprintf(&text, "        %s\n", Describe(p))
			}
		}
	}
	fmt.Fprintf(&text, "the world then:\n%s", indent(expand(x.atlas, &x.nodes[n].state).String()))
	x.failure = text.String()
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(text, "\n", "\n    ")
}

// Interchangeable is a Canonical for pods whose names mean nothing: it sorts them by everything else and names them anew.
func Interchangeable[W any](name func(i int) string) func(*World[W]) {
	return func(w *World[W]) {
		type anonymous struct {
			pod  *corev1.Pod
			text string
		}
		all := make([]anonymous, len(w.Pods))
		for i, p := range w.Pods {
			p = p.DeepCopy()
			p.Name, p.UID = "", ""
			data, err := p.Marshal()
			if err != nil {
				panic(fmt.Sprintf("encoding a pod: %v", err))
			}
			all[i] = anonymous{p, string(data)}
		}
		slices.SortFunc(all, func(a, b anonymous) int { return strings.Compare(a.text, b.text) })
		for i := range all {
			all[i].pod.Name = name(i)
			all[i].pod.UID = uidOf(name(i))
			w.Pods[i] = all[i].pod
		}
	}
}
