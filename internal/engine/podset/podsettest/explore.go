// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
	// Harm are the harmful moves that can happen.
	Harm []Move
	// Budget is how much harm and how many changes there are in one history.
	Budget Budget
	// Changes are what the user can do next, as far as the budget allows. May be nil.
	Changes func(*World[W]) []Change[W]
	// Always holds in every step of the controller.
	Always []Invariant[W]
	// Resting holds in every world in which nothing is planned; the error says what is left undone. May be nil.
	Resting func(w *World[W]) error
	// Goal says that the world is as it should be. From every world some goal must be reachable without harm and without the user
	// changing anything.
	Goal func(w *World[W], plan podset.Plan) bool
	// Rename gives a pod the name, and everything that follows from it, that the i-th pod has. With it, worlds are one that differ only in
	// which pod has which name. Names then mean nothing but an order: planning is done for every order that the names of a world's
	// living pods can be in, see MaxOrders. Only for workloads without claims. May be nil.
	Rename func(pod *corev1.Pod, i int)
	// Marked is the name of the pod that the set names, if it names one; Mark is the set with another name in that place. Only needed with
	// Rename, and where sets name pods.
	Marked func(W) string
	Mark   func(W, string) W
	// MaxOrders is for how many orders of its names a world is planned in at most. When omitted, it is 24: all there are of four pods. A world
	// that has more is planned in those that let each of its pods once be the first and once the last one.
	MaxOrders int
	// MaxTerminating is how many pods are terminating at most, unless a finalizer holds them: when there would be more, one of them is gone at
	// once. Only with Rename. When omitted, there is no limit.
	MaxTerminating int
	// Plain explores without reduction: what no decision can depend on is kept, and worlds with other budgets are other worlds.
	// There is no use for it but to show that the reduction loses nothing.
	Plain bool
	// Fingerprints fills in Result.Worlds.
	Fingerprints bool
	// MaxStates is how many worlds are visited at most. When omitted, it is a million.
	MaxStates int
	// MayCut says that not visiting all worlds is no failure.
	MayCut bool
	// Workers is how many worlds are expanded at the same time. When omitted, it is two.
	Workers int
	// Progress is told how far the exploration is, each time that some hundred thousand worlds more are known. May be nil.
	Progress func(string)

	// anonymous is Rename for fingerprints alone.
	anonymous func(pod *corev1.Pod, i int)
}

// Budget is how often things may happen that do not happen by themselves.
type Budget struct {
	// Harm are harmful moves.
	Harm int8
	// Edits are changes of the template, Scalings all other changes that the user makes.
	Edits, Scalings int8
}

// covers says that the budget allows all that the other one allows.
func (b Budget) covers(other Budget) bool {
	return b.Harm >= other.Harm && b.Edits >= other.Edits && b.Scalings >= other.Scalings
}

func (b Budget) without(cost Budget) Budget {
	return Budget{Harm: b.Harm - cost.Harm, Edits: b.Edits - cost.Edits, Scalings: b.Scalings - cost.Scalings}
}

// Change is something the user does to the workload. It counts as an edit of the template or as one of the other changes.
type Change[W any] struct {
	Name string
	To   W
	Edit bool
}

func (c Change[W]) kind() kind {
	if c.Edit {
		return edits
	}
	return scalings
}

// Result is what an exploration has seen.
type Result struct {
	// States are the different worlds, Transitions the steps between them, Cut the worlds that were seen and not visited because of
	// MaxStates.
	States, Transitions, Cut int
	// Pods is how many different pods there were.
	Pods int
	// Unordered is how many worlds have more orders of names than were planned in.
	Unordered int
	// Hurried is how many steps found MaxTerminating pods terminating, so that one of them was gone at once.
	Hurried int
	// Failure is the first thing that was wrong, with the shortest history that leads to it; empty if all is well.
	Failure string
	// Worlds are the reduced worlds that were visited, as hashes of what is in them. Nil unless asked for.
	Worlds map[[16]byte]struct{}
}

func (r Result) String() string {
	text := fmt.Sprintf("explored %d states, %d transitions, cut %d (%d different pods)", r.States, r.Transitions, r.Cut, r.Pods)
	if r.Unordered > 0 {
		text += fmt.Sprintf("; in %d states not every order of names was planned", r.Unordered)
	}
	if r.Hurried > 0 {
		text += fmt.Sprintf("; in %d steps too many pods were terminating, and one was gone at once", r.Hurried)
	}
	return text
}

// Explore runs the exploration and fails the test if anything is wrong.
func Explore[W comparable](t testing.TB, e Exploration[W]) Result {
	t.Helper()
	if Full() {
		e.Progress = func(text string) { t.Log(text) }
	}
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

// crowded is how many worlds take so much memory that there should not be several times as much garbage besides.
const crowded = 500_000

// batch is how many worlds are expanded before their successors are stored.
const batch = 4096

// Run runs the exploration.
func (e Exploration[W]) Run() Result {
	if e.MaxStates == 0 {
		e.MaxStates = 1_000_000
	}
	if e.MaxOrders == 0 {
		e.MaxOrders = 24
	}
	if e.Workers == 0 {
		e.Workers = 2
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // much is made, little of it is thrown away
	x := &explorer[W]{Exploration: e, atlas: newAtlas(e.Cluster, !e.Plain), index: map[key]int32{}, seeds: newSeeds()}
	for _, w := range e.Start {
		w = w.clone()
		for i, p := range w.Pods {
			w.Pods[i] = x.atlas.settle(p.DeepCopy())
		}
		s, err := x.state(nil, nil, w)
		if err != nil {
			return Result{Failure: err.Error()}
		}
		x.arrive(x.visit(&s, x.keyOf(&s, e.Budget), -1), e.Budget)
	}
	for len(x.queue) > 0 && x.failure == "" {
		items := x.next()
		x.store(items, x.expandAll(items))
		x.tell()
		if len(x.nodes) > crowded {
			debug.SetGCPercent(100) // by now memory is dearer than time
		}
	}
	if x.failure == "" {
		x.checkSpinning()
	}
	if x.failure == "" {
		x.checkGoal()
	}
	unordered := 0
	for i := range x.nodes {
		if x.nodes[i].unordered {
			unordered++
		}
	}
	result := Result{
		Unordered: unordered, Hurried: int(x.hurried.Load()),
		States: len(x.nodes), Transitions: x.transitions, Cut: x.cut, Pods: len(x.atlas.pods.objects) - 1, Failure: x.failure,
	}
	if e.Fingerprints {
		result.Worlds = x.fingerprints()
	}
	return result
}

// tell reports progress.
func (x *explorer[W]) tell() {
	const often = 250_000
	if x.Progress != nil && len(x.nodes)/often > x.told {
		x.told = len(x.nodes) / often
		x.Progress(fmt.Sprintf("%d states, %d transitions, %d in the queue", len(x.nodes), x.transitions, len(x.queue)))
	}
}

// explorer is one run.
//
// A budget is no part of a world: what is planned in a world, whether that is right and whether a goal can be reached from it without
// harm or changes does not depend on what else may happen later. So a world is planned in once, and visited again only with a budget that
// allows something that no budget before did.
type explorer[W comparable] struct {
	Exploration[W]
	atlas *atlas
	seeds [2]maphash.Seed
	// index finds a world by its hash: 128 bits of it are as good as the world, which would take ten times the memory.
	index map[key]int32
	nodes []node[W]
	// queue are the worlds that were reached with a budget that allows more than those before.
	queue       []int32
	transitions int
	cut         int
	failure     string
	// told is how often progress was reported, hurried is Result.Hurried.
	told    int
	hurried atomic.Int64
}

// key is the hash of a world.
type key [2]uint64

func newSeeds() [2]maphash.Seed { return [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()} }

// kind is why a step happens.
type kind uint8

const (
	// itself: sooner or later the step happens by itself.
	itself kind = iota
	harm
	edits
	scalings
	kinds
)

func (k kind) cost() Budget {
	switch k {
	case harm:
		return Budget{Harm: 1}
	case edits:
		return Budget{Edits: 1}
	case scalings:
		return Budget{Scalings: 1}
	default:
		return Budget{}
	}
}

// node is a visited world.
type node[W comparable] struct {
	state state[W]
	// parent is the world it was first reached from; -1 for a start.
	parent int32
	// budgets are those it was reached with, none of which covers another one; fresh are those that were not followed up yet.
	budgets, fresh []Budget
	queued         bool
	// done says of which kinds the steps are known.
	done [kinds]bool
	// goal: the world is as it should be. open: it leads to worlds that were not visited.
	goal, open bool
	// idle: nothing is planned. waits: and no time is set to look again.
	idle, waits bool
	// unordered: there are orders of its names that were not planned in.
	unordered bool
	steps     []step
}

// step is one way out of a world, as it is remembered.
type step struct {
	to   int32
	kind kind
	// forward: it happens sooner or later. whole: it is the whole plan. time: nothing but time passes.
	forward, whole, time bool
}

// keyOf is the hash of a world that is reached with a budget. Without reduction the budget is a part of the world.
func (x *explorer[W]) keyOf(s *state[W], b Budget) key {
	if x.Plain {
		s.budget = b
	}
	return key{maphash.Comparable(x.seeds[0], *s), maphash.Comparable(x.seeds[1], *s)}
}

// edge is one way out of a world.
type edge[W comparable] struct {
	to   state[W]
	kind kind
	// label describes it; costly, and needed only for the history of a failure.
	label func() string
	// forward, whole and time are those of step.
	forward, whole, time bool
	// failure is what is wrong with it.
	failure string
	// key is the hash of to.
	key key
}

// expansion is a world with its ways out.
type expansion[W comparable] struct {
	edges       []edge[W]
	goal        bool
	idle, waits bool
	unordered   bool
	failure     string
}

// visitor is a visit of a world with the budgets that are new to it.
type visitor struct {
	node    int32
	budgets []Budget
	// due are the kinds of steps that some budget allows and that are not known yet.
	due [kinds]bool
}

// next takes the next worlds from the queue.
func (x *explorer[W]) next() []visitor {
	items := make([]visitor, min(len(x.queue), batch))
	for i, n := range x.queue[:len(items)] {
		at := &x.nodes[n]
		v := visitor{node: n, budgets: at.fresh}
		for k := range kinds {
			v.due[k] = !at.done[k] && slices.ContainsFunc(v.budgets, func(b Budget) bool { return b.covers(k.cost()) })
			at.done[k] = at.done[k] || v.due[k]
		}
		at.fresh, at.queued = nil, false
		items[i] = v
	}
	x.queue = x.queue[len(items):]
	return items
}

// expandAll expands the nodes, in parallel.
func (x *explorer[W]) expandAll(items []visitor) []expansion[W] {
	results := make([]expansion[W], len(items))
	var group sync.WaitGroup
	for worker := range x.Workers {
		group.Go(func() {
			var edges []edge[W] // what is found grows here, and is kept at its size
			for i := worker; i < len(items); i += x.Workers {
				found := x.expand(items[i].node, items[i].due, edges[:0])
				edges = found.edges
				for e := range edges {
					edges[e].key = x.keyOf(&edges[e].to, items[i].budgets[0].without(edges[e].kind.cost()))
				}
				found.edges = slices.Clone(edges)
				results[i] = found
			}
		})
	}
	group.Wait()
	return results
}

// expand finds everything that can happen next, of the given kinds, and appends it to the edges. For what happens by itself it plans.
func (x *explorer[W]) expand(n int32, due [kinds]bool, edges []edge[W]) (out expansion[W]) {
	s := &x.nodes[n].state
	out.edges = edges
	add := func(e edge[W]) { out.edges = append(out.edges, e) }
	w := expand(x.atlas, s)
	recheck := false
	if due[itself] {
		plan, after := x.Step(w)
		if out.failure = x.leftUndone(w, plan, after); out.failure != "" {
			return out
		}
		recheck = plan.RecheckAfter > 0
		out.goal, out.idle, out.waits = x.Goal(w, plan), len(plan.Actions) == 0 && after == w.Set, plan.RecheckAfter == 0
		if n%32 == 0 {
			for _, p := range s.pods {
				if p != 0 && !x.atlas.pods.intact(p) {
					out.failure = "the planner changed a pod that it was given to read"
					return out
				}
			}
		}
		x.controllerSteps(s, w, plan, after, add)
		if x.Rename != nil {
			x.otherOrders(s, &out, &recheck, x.planOf(s, w, plan, after))
		}
	}
	if due[itself] || due[harm] {
		x.clusterSteps(s, w, due, recheck, add)
	}
	if x.Changes != nil && (due[edits] || due[scalings]) {
		for _, change := range x.Changes(w) {
			if due[change.kind()] {
				next := *s
				next.set = change.To
				add(edge[W]{to: x.canonical(next), kind: change.kind(), label: func() string { return "the user: " + change.Name }})
			}
		}
	}
	return out
}

// leftUndone says what a world that nothing is planned in leaves to be done; empty when that is nothing.
func (x *explorer[W]) leftUndone(w *World[W], plan podset.Plan, after W) string {
	if x.Resting == nil || len(plan.Actions) > 0 || after != w.Set {
		return ""
	}
	if err := x.Resting(w); err != nil {
		return "nothing is planned, but " + err.Error()
	}
	return ""
}

// otherOrders adds what the controller does when the names of the pods are in another order, unless it is what is planned in this one.
func (x *explorer[W]) otherOrders(s *state[W], out *expansion[W], recheck *bool, planned string) {
	known := map[string]bool{"": true, planned: true}
	var classes, last []role
	for i, p := range s.pods {
		switch {
		case p == 0:
		case passedOver(x.atlas.pods.get(p)):
			last = append(last, x.roleOf(s, i))
		default:
			classes = append(classes, x.roleOf(s, i))
		}
	}
	slices.Sort(classes)
	orders, all := ordersOf(classes, x.MaxOrders)
	out.unordered = !all
	for _, order := range orders[1:] {
		named := *s
		x.cast(&named, append(order, last...))
		w := expand(x.atlas, &named)
		plan, after := x.Step(w)
		if out.failure = x.leftUndone(w, plan, after); out.failure != "" {
			return
		}
		*recheck = *recheck || plan.RecheckAfter > 0
		out.goal = out.goal && x.Goal(w, plan)
		out.idle = out.idle && len(plan.Actions) == 0 && after == w.Set
		// The same actions on pods of the same classes lead to the same worlds.
		if text := x.planOf(&named, w, plan, after); !known[text] {
			known[text] = true
			x.controllerSteps(&named, w, plan, after, func(e edge[W]) {
				e.whole = false
				out.edges = append(out.edges, e)
			})
		}
	}
}

// passedOver says that a pod is terminating or has finished. No planner chooses among such pods, so where they stand in the order of names
// means nothing; that this is harmless is shown where names are compared.
func passedOver(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// planOf is what a plan does, without the names of pods; empty if that is nothing.
func (x *explorer[W]) planOf(s *state[W], w *World[W], plan podset.Plan, after W) string {
	if len(plan.Actions) == 0 && after == w.Set {
		return ""
	}
	parts := make([]string, 0, len(plan.Actions))
	for _, action := range plan.Actions {
		class := id(0)
		text, err := json.Marshal(action.Edit)
		if err != nil {
			panic(fmt.Sprintf("encoding an edit: %v", err))
		}
		if at, found := w.find(action.Pod.Name); found {
			class = id(x.roleOf(s, at))
		} else {
			created := action.Pod.DeepCopy()
			x.Rename(created, 0)
			if class = x.atlas.pods.add(created); action.Verb != podset.VerbCreate {
				class = -1
			}
		}
		parts = append(parts, string(action.Verb)+" "+strconv.Itoa(int(class))+" "+string(text))
	}
	slices.Sort(parts)
	if x.Marked != nil && x.Marked(after) != "" {
		after = x.Mark(after, "marked")
	}
	return fmt.Sprintf("%+v\n", after) + strings.Join(parts, "\n")
}

// ordersOf are all orders that sorted numbers can be in, the sorted one first, and true. If there are more than most, they are those that
// begin with any number and go up or down from there, and false.
func ordersOf(numbers []role, most int) ([][]role, bool) {
	var orders [][]role
	for order := slices.Clone(numbers); ; {
		orders = append(orders, slices.Clone(order))
		if !nextOrder(order) {
			return orders, true
		}
		if len(orders) == most {
			break
		}
	}
	orders = nil
	up, down := slices.Clone(numbers), slices.Clone(numbers)
	slices.Reverse(down)
	for i := range numbers {
		for _, from := range [][]role{up, down} {
			order := slices.Concat(from[i:], from[:i])
			if !slices.ContainsFunc(orders, func(known []role) bool { return slices.Equal(known, order) }) {
				orders = append(orders, order)
			}
		}
	}
	return orders, false
}

// nextOrder makes the next larger order of the numbers, and reports whether there is one.
func nextOrder(numbers []role) bool {
	i := len(numbers) - 2
	for i >= 0 && numbers[i] >= numbers[i+1] {
		i--
	}
	if i < 0 {
		return false
	}
	j := len(numbers) - 1
	for numbers[j] <= numbers[i] {
		j--
	}
	numbers[i], numbers[j] = numbers[j], numbers[i]
	slices.Reverse(numbers[i+1:])
	return true
}

// controllerSteps adds the whole plan, each of its actions alone, and each half of an action.
func (x *explorer[W]) controllerSteps(s *state[W], w *World[W], plan podset.Plan, after W, add func(edge[W])) {
	whole := w.clone()
	var wrong error
	requests := make([]request, len(plan.Actions))
	for i, action := range plan.Actions {
		requests[i] = requestOf(action)
		if err := x.apply(whole, requests[i]); err != nil && wrong == nil {
			wrong = err
		}
	}
	if len(plan.Actions) > 0 || after != w.Set {
		whole.Set = after
		e := x.event(s, w, whole, plan.Actions, wrong)
		e.forward, e.whole = true, true
		e.label = func() string { return "the controller: " + describePlan(plan) }
		add(e)
	}
	for i, action := range plan.Actions {
		if len(plan.Actions) > 1 || after != w.Set {
			single := w.clone()
			err := x.apply(single, requests[i])
			e := x.event(s, w, single, []podset.Action{action}, err)
			e.forward = true
			e.label = func() string { return "the controller, only: " + DescribeAction(action) }
			add(e)
		}
		for _, half := range Halves(action) {
			partly := w.clone()
			err := x.apply(partly, requestOf(half))
			e := x.event(s, w, partly, []podset.Action{action}, err)
			e.label = func() string { return "the controller, half of: " + DescribeAction(action) }
			add(e)
		}
	}
}

// clusterSteps adds what can happen without the controller and the user.
func (x *explorer[W]) clusterSteps(s *state[W], w *World[W], due [kinds]bool, recheck bool, add func(edge[W])) {
	for at, pod := range s.pods {
		if pod == 0 {
			continue
		}
		for _, m := range x.atlas.movesOf(pod) {
			why := itself
			if m.move.harmful() {
				why = harm
			}
			if !due[why] || why == harm && !slices.Contains(x.Harm, m.move) {
				continue
			}
			next := *s
			next.pods[at] = m.to
			name := w.Pods[at].Name
			if m.to == 0 {
				gone := w.clone()
				gone.remove(name)
				var err error
				if next, err = x.state(s, w, gone); err != nil {
					add(edge[W]{failure: err.Error(), label: func() string { return name }})
					continue
				}
			} else {
				next = x.canonical(next)
			}
			isTime := m.move == Elapse
			add(edge[W]{
				to: next, kind: why, label: func() string { return name + " " + string(m.move) },
				forward: why == itself && (!isTime || recheck), time: isTime,
			})
		}
	}
	if !due[itself] {
		return
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

// request is an action with what it asks for as text.
type request struct {
	podset.Action
	change, created string
}

func requestOf(action podset.Action) request {
	r := request{Action: action}
	if !action.Edit.IsZero() {
		change, err := json.Marshal(action.Edit)
		if err != nil {
			panic(fmt.Sprintf("encoding an edit: %v", err))
		}
		r.change = string(change)
	}
	if action.Verb == podset.VerbCreate {
		created, err := action.Pod.Marshal()
		if err != nil {
			panic(fmt.Sprintf("encoding pod %s: %v", action.Pod.Name, err))
		}
		r.created = string(created)
	}
	return r
}

// apply is Apply, with what it makes of a pod remembered.
func (x *explorer[W]) apply(w *World[W], action request) error {
	var key result
	before := (*corev1.Pod)(nil)
	if action.Pod != nil {
		before = w.Pod(action.Pod.Name)
	}
	switch {
	case action.Verb == podset.VerbCreate && before == nil:
		key = result{verb: action.Verb, edit: action.change, created: action.created}
	case before != nil && (action.Verb == podset.VerbEdit || action.Verb == podset.VerbDelete):
		key = result{pod: before, verb: action.Verb, edit: action.change}
	default:
		return Apply(w, action.Action)
	}
	if known := x.atlas.resultOf(key); known != nil {
		createClaims(w, action.Claims)
		w.put(known)
		return nil
	}
	if err := Apply(w, action.Action); err != nil {
		return err
	}
	normal := x.atlas.normal(w.Pod(action.Pod.Name))
	w.put(normal)
	x.atlas.remember(key, normal)
	return nil
}

// event is the edge of a step of the controller, judged by the invariants.
func (x *explorer[W]) event(s *state[W], before, after *World[W], actions []podset.Action, wrong error) edge[W] {
	if wrong != nil {
		return edge[W]{to: *s, failure: wrong.Error()}
	}
	for i, p := range after.Pods {
		if j, found := before.find(p.Name); !found || before.Pods[j] != p {
			after.Pods[i] = x.atlas.normal(p)
		}
	}
	for _, invariant := range x.Always {
		if err := invariant.Check(Event[W]{Before: before, After: after, Actions: actions}); err != nil {
			return edge[W]{to: *s, failure: invariant.Name + ": " + err.Error()}
		}
	}
	for i, p := range after.Pods {
		if j, found := before.find(p.Name); !found || before.Pods[j] != p {
			after.Pods[i] = x.atlas.kept(p)
		}
	}
	to, err := x.state(s, before, after)
	if err != nil {
		return edge[W]{to: *s, failure: err.Error()}
	}
	return edge[W]{to: to}
}

// state makes numbers of a world that came from another one, whose objects are known; both are nil for a start.
func (x *explorer[W]) state(from *state[W], before, w *World[W]) (state[W], error) {
	to := state[W]{set: w.Set}
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
		to.pods[i] = x.atlas.number(p)
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
	return x.canonical(to), nil
}

// canonical gives the pods the names that go with their order, if names mean nothing.
func (x *explorer[W]) canonical(s state[W]) state[W] {
	if x.Rename == nil {
		return s
	}
	var buffer [maxObjects]role
	roles := buffer[:0]
	terminating := 0
	for i, p := range s.pods {
		if p == 0 {
			continue
		}
		if pod := x.atlas.pods.get(p); x.MaxTerminating > 0 && pod.DeletionTimestamp != nil && len(pod.Finalizers) == 0 {
			if terminating++; terminating > x.MaxTerminating {
				x.hurried.Add(1)
				continue
			}
		}
		roles = append(roles, x.roleOf(&s, i))
	}
	slices.Sort(roles)
	x.cast(&s, roles)
	return s
}

// role is all that matters of a pod whose name means nothing: twice its class, and one more if the set names it.
type role id

func (x *explorer[W]) roleOf(s *state[W], i int) role {
	r := role(2 * x.atlas.classOf(s.pods[i], x.Rename))
	if x.Marked != nil {
		if name := x.Marked(s.set); name != "" && name == x.atlas.pods.get(s.pods[i]).Name {
			r++
		}
	}
	return r
}

// cast gives the roles to pods, in the order of their names.
func (x *explorer[W]) cast(s *state[W], roles []role) {
	const nobody = "nobody" // all names of pods that are gone are one
	marked := nobody
	s.pods = [maxObjects]id{}
	for i, r := range roles {
		s.pods[i] = x.atlas.member(id(r/2), i, x.Rename)
		if r%2 == 1 {
			marked = x.atlas.pods.get(s.pods[i]).Name
		}
	}
	if x.Marked != nil && x.Marked(s.set) != "" {
		s.set = x.Mark(s.set, marked)
	}
}

// visit returns the number of a world, a new one if it was never met; -1 when there is no room.
func (x *explorer[W]) visit(to *state[W], key key, parent int32) int32 {
	if known, found := x.index[key]; found {
		return known
	}
	if len(x.nodes) >= x.MaxStates {
		x.cut++
		return -1
	}
	n := int32(len(x.nodes))
	x.index[key] = n
	x.nodes = append(x.nodes, node[W]{state: *to, parent: parent})
	return n
}

// arrive notes that a world is reached with a budget, if that allows more than before.
func (x *explorer[W]) arrive(n int32, b Budget) {
	at := &x.nodes[n]
	if slices.ContainsFunc(at.budgets, func(known Budget) bool { return known.covers(b) }) {
		return
	}
	at.budgets = append(slices.DeleteFunc(at.budgets, b.covers), b)
	at.fresh = append(slices.DeleteFunc(at.fresh, b.covers), b)
	if !at.queued {
		at.queued = true
		x.queue = append(x.queue, n)
	}
}

// store takes over what the worlds lead to.
func (x *explorer[W]) store(items []visitor, results []expansion[W]) {
	for i, result := range results {
		n := items[i].node
		if result.failure != "" {
			x.fail(n, result.failure)
			return
		}
		if items[i].due[itself] {
			x.nodes[n].goal, x.nodes[n].idle, x.nodes[n].waits, x.nodes[n].unordered = result.goal, result.idle, result.waits, result.unordered
		}
		x.nodes[n].steps = slices.Grow(x.nodes[n].steps, len(result.edges))
		for j := range result.edges {
			e := &result.edges[j]
			if e.failure != "" {
				x.fail(n, e.label()+"\n"+e.failure)
				return
			}
			x.transitions++
			to := x.visit(&e.to, e.key, n)
			if to < 0 {
				x.nodes[n].open = true
				continue
			}
			x.nodes[n].steps = append(x.nodes[n].steps, step{to: to, kind: e.kind, forward: e.forward, whole: e.whole, time: e.time})
		}
		for _, s := range x.nodes[n].steps {
			for _, b := range items[i].budgets {
				if cost := s.kind.cost(); b.covers(cost) {
					x.arrive(s.to, b.without(cost))
				}
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
			n = x.whole(n)
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
		node := &x.nodes[n]
		if !node.idle || !node.waits {
			continue
		}
		for _, s := range node.steps {
			if s.time && !x.nodes[s.to].idle {
				x.fail(int32(n), "when time has passed there is something to do, but nothing asks to look again\nthen: "+x.planAt(s.to))
				return
			}
		}
	}
}

// whole is where the whole plan leads; -1 when it is empty.
func (x *explorer[W]) whole(n int32) int32 {
	for _, s := range x.nodes[n].steps {
		if s.whole {
			return s.to
		}
	}
	return -1
}

// checkGoal finds worlds from which no goal can be reached any more.
func (x *explorer[W]) checkGoal() {
	// backward are the forward steps the other way round: those to node i are from start[i] on.
	start := make([]int, len(x.nodes)+1)
	for i := range x.nodes {
		for _, s := range x.nodes[i].steps {
			if s.forward {
				start[s.to+1]++
			}
		}
	}
	for i := range x.nodes {
		start[i+1] += start[i]
	}
	backward := make([]int32, start[len(x.nodes)])
	next := slices.Clone(start)
	for i := range x.nodes {
		for _, s := range x.nodes[i].steps {
			if s.forward {
				backward[next[s.to]] = int32(i)
				next[s.to]++
			}
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
		fmt.Fprintf(&text, "%d. %s\n", i+1, x.labelOf(numbers[i], at))
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

// labelOf describes the step from one world to another one.
func (x *explorer[W]) labelOf(from, to int32) string {
	for _, e := range x.expand(from, [kinds]bool{true, true, true, true}, nil).edges {
		same := e.to
		same.budget = x.nodes[to].state.budget
		if same == x.nodes[to].state {
			return e.label()
		}
	}
	return "(a step that cannot be found again)"
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(text, "\n", "\n    ")
}
