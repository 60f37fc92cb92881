// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"fmt"
	"runtime/debug"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// Exploration visits every state that can be reached.
type Exploration[W comparable] struct {
	// Start are the states to begin from.
	Start []*State[W]
	// Step is the planner under test.
	Step Step[W]
	// Cluster is what happens around it.
	Cluster Cluster
	// Faults are the faults that can happen.
	Faults []Move
	// Budget is how many faults and changes there are in one history.
	Budget Budget
	// Changes are what the user can do next, as far as the budget allows. May be nil.
	Changes func(*State[W]) []Change[W]
	// Always holds in every step of the controller.
	Always []Invariant[W]
	// Resting holds in every state in which nothing is planned; the error says what is left undone. May be nil.
	Resting func(w *State[W]) error
	// Goal says that the state is as it should be. From every state some goal must be reachable without faults and without the user
	// changing anything.
	Goal func(w *State[W], plan planning.Plan) bool
	// Rename gives a pod the name, and everything that follows from it, that the i-th pod has. With it, states are one that differ only in
	// which pod has which name. Names then mean nothing but an order: planning is done for every order that the names of a state's
	// living pods can be in, see MaxOrders. Only for workloads without claims. May be nil.
	Rename func(pod *corev1.Pod, i int)
	// Marked is the name of the pod that the set names, if it names one; Mark is the set with another name in that place. Only needed with
	// Rename, and where sets name pods.
	Marked func(W) string
	Mark   func(W, string) W
	// MaxOrders is for how many orders of its names a state is planned in at most. When omitted, it is 24: all there are of four pods. A state
	// that has more is planned in those that let each of its pods once be the first and once the last one.
	MaxOrders int
	// MaxTerminating is how many pods are terminating at most, unless a finalizer holds them: when there would be more, one of them is gone at
	// once. Only with Rename. When omitted, there is no limit.
	MaxTerminating int
	// Plain explores without reduction: what no decision can depend on is kept, and states with other budgets are other states.
	// There is no use for it but to show that the reduction loses nothing.
	Plain bool
	// KeepFingerprints fills in Result.Fingerprints.
	KeepFingerprints bool
	// MaxStates is how many states are visited at most. When omitted, it is a million.
	MaxStates int
	// Workers is how many states are expanded at the same time. When omitted, it is two.
	Workers int
	// Progress is called with how far the exploration is, each time that some hundred thousand states more are known. May be nil.
	Progress func(string)

	// anonymous is Rename for fingerprints alone.
	anonymous func(pod *corev1.Pod, i int)
}

// Budget is how often things may happen that do not happen by themselves.
type Budget struct {
	// Faults are moves that are faults, see Move.
	Faults int8
	// Edits are changes of the template, Scalings all other changes that the user makes.
	Edits, Scalings int8
}

// covers says that the budget allows all that the other one allows.
func (b Budget) covers(other Budget) bool {
	return b.Faults >= other.Faults && b.Edits >= other.Edits && b.Scalings >= other.Scalings
}

func (b Budget) without(cost Budget) Budget {
	return Budget{Faults: b.Faults - cost.Faults, Edits: b.Edits - cost.Edits, Scalings: b.Scalings - cost.Scalings}
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
	// States are the different states, Transitions the steps between them, Cut the states that were seen and not visited because of
	// MaxStates.
	States, Transitions, Cut int
	// Pods is how many different pods there were.
	Pods int
	// Unordered is how many states have more orders of names than were planned in.
	Unordered int
	// Hurried is how many steps found MaxTerminating pods terminating, so that one of them was gone at once.
	Hurried int
	// Failure is the first thing that was wrong, with the shortest history that leads to it; empty if all is well.
	Failure string
	// States are the reduced states that were visited, as hashes of what is in them. Nil unless asked for.
	Fingerprints map[[16]byte]struct{}
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
	if sample.All() {
		e.Progress = func(text string) { t.Log(text) }
	}
	result := e.Run()
	t.Log(result)
	if result.Failure != "" {
		t.Error(result.Failure)
	}
	if result.Cut > 0 {
		t.Errorf("%d states were not visited: the limit of %d is too low for what is explored", result.Cut, e.MaxStates)
	}
	return result
}

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
	x := &explorer[W]{Exploration: e, podTable: newPodTable(e.Cluster, !e.Plain), index: map[key]int32{}, seeds: newSeeds()}
	for _, w := range e.Start {
		w = w.clone()
		for i, p := range w.Pods {
			w.Pods[i] = x.podTable.settle(p.DeepCopy())
		}
		s, err := x.encode(nil, nil, w)
		if err != nil {
			return Result{Failure: err.Error()}
		}
		x.arrive(x.visit(&s, x.keyOf(&s, e.Budget), -1), e.Budget)
	}
	for len(x.queue) > 0 && x.failure == "" {
		items := x.next()
		x.store(items, x.expandAll(items))
		x.reportProgress()
		if len(x.nodes) > manyStates {
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
		States: len(x.nodes), Transitions: x.transitions, Cut: x.cut, Pods: len(x.podTable.pods.objects) - 1, Failure: x.failure,
	}
	if e.KeepFingerprints {
		result.Fingerprints = x.fingerprints()
	}
	return result
}
