// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
)

// manyStates is how many states take so much memory that there should not be several times as much garbage besides.
const manyStates = 500_000

// batch is how many states are expanded before their successors are stored.
const batch = 4096

// tell reports progress.
func (x *explorer[W]) reportProgress() {
	const often = 250_000
	if x.Progress != nil && len(x.nodes)/often > x.reported {
		x.reported = len(x.nodes) / often
		x.Progress(fmt.Sprintf("%d states, %d transitions, %d in the queue", len(x.nodes), x.transitions, len(x.queue)))
	}
}

// explorer is one run.
//
// A budget is no part of a state: what is planned in a state, whether that is right and whether a goal can be reached from it without
// faults or changes does not depend on what else may happen later. So a state is planned in once, and visited again only with a budget that
// allows something that no budget before did.
type explorer[W comparable] struct {
	Exploration[W]
	podTable *podTable
	seeds    [2]maphash.Seed
	// index finds a state by its hash: 128 bits of it are as good as the state, which would take ten times the memory.
	index map[key]int32
	nodes []node[W]
	// queue are the states that were reached with a budget that allows more than those before.
	queue       []int32
	transitions int
	cut         int
	failure     string
	// told is how often progress was reported, hurried is Result.Hurried.
	reported int
	hurried  atomic.Int64
}

// key is the hash of a state.
type key [2]uint64

func newSeeds() [2]maphash.Seed { return [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()} }

// kind is why a step happens.
type kind uint8

const (
	// itself: sooner or later the step happens by itself.
	itself kind = iota
	faults
	edits
	scalings
	kinds
)

func (k kind) cost() Budget {
	switch k {
	case faults:
		return Budget{Faults: 1}
	case edits:
		return Budget{Edits: 1}
	case scalings:
		return Budget{Scalings: 1}
	default:
		return Budget{}
	}
}

// node is a visited state.
type node[W comparable] struct {
	state encoded[W]
	// parent is the state it was first reached from; -1 for a start.
	parent int32
	// budgets are those it was reached with, none of which covers another one; fresh are those that were not followed up yet.
	budgets, fresh []Budget
	queued         bool
	// done says of which kinds the steps are known.
	done [kinds]bool
	// goal: the state is as it should be. open: it leads to states that were not visited.
	goal, open bool
	// idle: nothing is planned. waits: and no time is set to look again.
	idle, waits bool
	// unordered: there are orders of its names that were not planned in.
	unordered bool
	steps     []step
}

// step is one way out of a state, as it is remembered.
type step struct {
	to   int32
	kind kind
	// forward: it happens sooner or later. whole: it is the whole plan. time: nothing but time passes.
	forward, whole, time bool
}

// keyOf is the hash of a state that is reached with a budget. Without reduction the budget is a part of the state.
func (x *explorer[W]) keyOf(s *encoded[W], b Budget) key {
	if x.Plain {
		s.budget = b
	}
	return key{maphash.Comparable(x.seeds[0], *s), maphash.Comparable(x.seeds[1], *s)}
}

// visitor is a visit of a state with the budgets that are new to it.
type visitor struct {
	node    int32
	budgets []Budget
	// due are the kinds of steps that some budget allows and that are not known yet.
	due [kinds]bool
}

// next takes the next states from the queue.
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

// visit returns the number of a state, a new one if it was never met; -1 when there is no room.
func (x *explorer[W]) visit(to *encoded[W], key key, parent int32) int32 {
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

// arrive notes that a state is reached with a budget, if that allows more than before.
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

// store takes over what the states lead to.
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
