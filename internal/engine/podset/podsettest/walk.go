// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"slices"
	"strings"
	"testing"
)

// Walk visits every state that can be reached from a first one, for kinds whose pods end and which have a simulation of their own. From each it
// demands a way to a state at rest that takes no fault.
type Walk[S any] struct {
	T *testing.T
	// Key is the same for states in which the same can happen.
	Key func(S) string
	// Expand calls Visit for every state that may follow, and sets Rests where nothing has to.
	Expand func(*Visited[S])

	states map[string]*Visited[S]
	queue  []*Visited[S]
}

// Visited is a state, and the way on which it was reached first.
type Visited[S any] struct {
	State S
	// Rests says that nothing happens any more, and that this is an end.
	Rests bool

	from *Visited[S]
	how  string
	// next are the states that follow without a fault.
	next []string
}

// Run visits all states.
func (x *Walk[S]) Run(start S) {
	x.T.Helper()
	x.states = map[string]*Visited[S]{}
	x.Visit(nil, "begin", start, false)
	for len(x.queue) > 0 && !x.T.Failed() {
		v := x.queue[0]
		x.queue = x.queue[1:]
		x.Expand(v)
	}
	x.demandRest()
	x.T.Logf("explored %d states", len(x.states))
}

// Visit notes a state that follows another one, and how; fault says that a fault leads there.
func (x *Walk[S]) Visit(from *Visited[S], how string, state S, fault bool) {
	key := x.Key(state)
	if from != nil && !fault {
		from.next = append(from.next, key)
	}
	if x.states[key] == nil {
		v := &Visited[S]{State: state, from: from, how: how}
		x.states[key] = v
		x.queue = append(x.queue, v)
	}
}

// Fail ends the test with the way to a state.
func (x *Walk[S]) Fail(v *Visited[S], what string) {
	x.T.Helper()
	var history []string
	for ; v != nil; v = v.from {
		history = append(history, v.how)
	}
	slices.Reverse(history)
	x.T.Fatalf("%s, after:\n  %s", what, strings.Join(history, "\n  "))
}

// demandRest goes back from the states at rest: each state has to be on the way.
func (x *Walk[S]) demandRest() {
	x.T.Helper()
	back := map[string][]string{}
	reached := map[string]bool{}
	var queue []string
	for key, v := range x.states {
		for _, next := range v.next {
			back[next] = append(back[next], key)
		}
		if v.Rests {
			reached[key] = true
			queue = append(queue, key)
		}
	}
	for len(queue) > 0 {
		key := queue[0]
		queue = queue[1:]
		for _, before := range back[key] {
			if !reached[before] {
				reached[before] = true
				queue = append(queue, before)
			}
		}
	}
	for key, v := range x.states {
		if !reached[key] {
			x.Fail(v, "no way leads to rest")
		}
	}
}
