// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"fmt"
	"slices"
	"strings"
)

// checkSpinning finds states that the controller alone turns in circles, and states that nobody looks at when it is time.
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
			x.fail(n, "the controller turns in circles: one pass after the other it acts, and comes back to this state")
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

// checkGoal finds states from which no goal can be reached any more.
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

// planAt describes what is planned in a state.
func (x *explorer[W]) planAt(n int32) string {
	plan, _ := x.Step(decode(x.podTable, &x.nodes[n].state))
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
	fmt.Fprintf(&text, "%s\n\nafter %d steps:\n%s\n", what, len(numbers)-1, indent(decode(x.podTable, &x.nodes[numbers[0]].state).String()))
	for i, at := range numbers[1:] {
		before := decode(x.podTable, &x.nodes[numbers[i]].state)
		after := decode(x.podTable, &x.nodes[at].state)
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
	fmt.Fprintf(&text, "the state then:\n%s", indent(decode(x.podTable, &x.nodes[n].state).String()))
	x.failure = text.String()
}

// labelOf describes the step from one state to another one.
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
