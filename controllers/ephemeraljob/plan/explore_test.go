// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

// An exploration visits every state that a small namespace with one job can reach: by passes that are carried out whole, by passes of which
// only one action happens before the operator dies and forgets what was refused, by containers that run and end, and by a limited number of
// faults: pods that are deleted, join or get a container of the same name from another, and a server that refuses. It holds in each step that
//
//   - containers are added to no more pods than parallelism allows, those counted that have not started;
//   - no pod with a container of the name, whoever added it, gets one, and none is added after the job has ended;
//   - a job ends as Succeeded only if all of its targets have succeeded, and its status stays from then on;
//   - from every state the job can come to its end, or to rest where it has no target.
type exploration struct {
	t *testing.T
	// start is the first state, exits are the codes with which containers end.
	start  *world
	exits  []int32
	faults int
	states map[string]*visited
	queue  []*visited
}

type visited struct {
	w      *world
	faults int
	from   *visited
	how    string
	// next are the states that follow without a fault.
	next  []string
	rests bool
}

// clone copies a world. Pods and the job are never changed where they are.
func (w *world) clone() *world {
	c := *w
	c.pods, c.refused, c.refuses = maps.Clone(w.pods), maps.Clone(w.refused), maps.Clone(w.refuses)
	c.log = &strings.Builder{}
	return &c
}

// key is the same for states in which the same can happen.
func (v *visited) key() string {
	var b strings.Builder
	w := v.w
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		pod := w.pods[name]
		fmt.Fprintf(&b, "%s %v %d;", name, w.refuses[name], w.refused[pod.UID].Tries)
		for _, c := range pod.Spec.EphemeralContainers {
			fmt.Fprintf(&b, "%s %d,", c.Name, len(c.Env))
		}
		for _, c := range pod.Status.EphemeralContainerStatuses {
			fmt.Fprintf(&b, "%v %v,", c.State.Running != nil, c.State.Terminated)
		}
	}
	s := &w.job.Status
	fmt.Fprintf(&b, "%s %v %d %d %d %d %d;", s.Phase, s.StartTime != nil, s.Matches, s.Running, s.Waiting, s.Succeeded, s.Failed)
	for _, c := range s.Conditions {
		fmt.Fprintf(&b, "%s=%s %s;", c.Type, c.Status, c.Reason)
	}
	fmt.Fprint(&b, v.faults)
	return b.String()
}

func (e *exploration) run() {
	e.t.Helper()
	e.states = map[string]*visited{}
	e.visit(nil, "begin", e.start, e.faults)
	for len(e.queue) > 0 && !e.t.Failed() {
		v := e.queue[0]
		e.queue = e.queue[1:]
		e.passes(v)
		e.containers(v)
		if v.faults > 0 {
			e.disturb(v)
		}
	}
	e.reachRest()
	e.t.Logf("explored %d states", len(e.states))
}

func (e *exploration) fail(v *visited, what string) {
	var history []string
	for ; v != nil; v = v.from {
		history = append(history, v.how)
	}
	slices.Reverse(history)
	e.t.Fatalf("%s, after:\n  %s", what, strings.Join(history, "\n  "))
}

// visit notes a state that follows another one.
func (e *exploration) visit(from *visited, how string, w *world, faults int) {
	v := &visited{w: w, faults: faults, from: from, how: how}
	key := v.key()
	if from != nil && faults == from.faults {
		from.next = append(from.next, key)
	}
	if e.states[key] == nil {
		e.states[key] = v
		e.queue = append(e.queue, v)
	}
}

func (e *exploration) move(v *visited, how string, cost int, change func(*world)) {
	next := v.w.clone()
	change(next)
	e.visit(v, how, next, v.faults-cost)
}

// containers lets containers of the job run and end.
func (e *exploration) containers(v *visited) {
	for _, name := range strings.Fields(v.w.served()) {
		list := v.w.pods[name].Status.EphemeralContainerStatuses
		switch {
		case len(list) == 0:
			e.move(v, name+" runs it", 0, func(w *world) { w.run(name) })
		case list[0].State.Running != nil:
			for _, code := range e.exits {
				e.move(v, fmt.Sprintf("%s ends with %d", name, code), 0, func(w *world) { w.exit(code, name) })
			}
		}
	}
}

// disturb lets one fault happen.
func (e *exploration) disturb(v *visited) {
	for _, name := range slices.Sorted(maps.Keys(v.w.pods)) {
		e.move(v, name+" is deleted", 1, func(w *world) { delete(w.pods, name) })
		if len(v.w.pods[name].Spec.EphemeralContainers) == 0 {
			e.move(v, name+" gets the name from another", 1, func(w *world) {
				w.changePod(name, func(pod *corev1.Pod) { pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{ephemeral("dbg")} })
			})
			e.move(v, name+" is refused", 1, func(w *world) { w.refuses[name] = !w.refuses[name] })
		}
	}
	if len(v.w.pods) < 3 {
		e.move(v, "a pod joins", 1, func(w *world) { w.join(corev1.PodRunning) })
	}
}

// working are the pods with containers of the job that have not ended.
func (w *world) working() int {
	working := 0
	for _, name := range strings.Fields(w.served()) {
		list := w.pods[name].Status.EphemeralContainerStatuses
		if len(list) == 0 || list[0].State.Terminated == nil {
			working++
		}
	}
	return working
}

// passes runs a whole pass, and passes that die after one action.
func (e *exploration) passes(v *visited) {
	next := v.w.clone()
	next.pass()
	e.check(v, next)
	e.visit(v, "pass: "+strings.ReplaceAll(next.log.String(), "\n", ";"), next, v.faults)
	over := next.job.Status.CompletionTime != nil || len(next.decision.view.targets) == 0
	v.rests = over && len(next.decision.Actions) == 0 && (&visited{w: next, faults: v.faults}).key() == v.key()
	for _, action := range next.decision.Actions {
		died := v.w.clone()
		died.refused = nil
		if !died.refuses[string(action.Slot)] {
			if err := died.carryOut(action); err != nil {
				e.fail(v, err.Error())
			}
		}
		if v.faults > 0 {
			e.visit(v, fmt.Sprintf("%s %s, and dies", action.Step, action.Slot), died, v.faults-1)
		}
	}
}

// check holds what a pass did against the rules.
func (e *exploration) check(v *visited, after *world) {
	before := v.w
	ended := before.job.Status.CompletionTime != nil
	limit := Parse(before.job).Parallelism
	added := 0
	for _, action := range after.decision.Actions {
		if action.Step != StepAdd {
			continue
		}
		added++
		if ended || len(before.pods[string(action.Slot)].Spec.EphemeralContainers) > 0 {
			e.fail(v, fmt.Sprintf("containers are added to %s; the job has ended: %v", action.Slot, ended))
		}
	}
	if working := before.working(); added > 0 && working+added > limit {
		e.fail(v, fmt.Sprintf("containers work in %d pods and %d more, allowed are %d", working, added, limit))
	}
	is := &after.job.Status
	if ended {
		if diff := cmp.Diff(&before.job.Status, is); diff != "" {
			e.fail(v, "the status of a job that has ended changes:\n"+diff)
		}
		return
	}
	good := is.Matches > 0 && is.Succeeded == is.Matches && is.Failed == 0
	if (is.Phase == appsv1beta1.EphemeralJobSucceeded) != good {
		e.fail(v, fmt.Sprintf("status %+v", is))
	}
	if is.Matches > 0 && is.Succeeded+is.Failed == is.Matches && is.CompletionTime == nil {
		e.fail(v, "all targets have ended, and the job has not")
	}
	if is.Running+is.Waiting+is.Succeeded+is.Failed > is.Matches {
		e.fail(v, fmt.Sprintf("counters %+v", is))
	}
}

// reachRest shows that every state leads to one at rest without faults.
func (e *exploration) reachRest() {
	back := map[string][]string{}
	var queue []string
	reached := map[string]bool{}
	for key, v := range e.states {
		for _, next := range v.next {
			back[next] = append(back[next], key)
		}
		if v.rests {
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
	for key, v := range e.states {
		if !reached[key] {
			e.fail(v, "no way leads to the end of the job")
		}
	}
}

func TestExplore(t *testing.T) {
	cases := map[string]struct {
		options []func(*world)
		exits   []int32
	}{
		"one at a time":        {nil, []int32{0, 1}},
		"two at a time":        {[]func(*world){parallelism(2)}, []int32{0, 1}},
		"two of three":         {[]func(*world){parallelism(2), replicas(2)}, []int32{0, 1}},
		"one pod is refused":   {[]func(*world){refusing("p1")}, []int32{0}},
		"all pods are refused": {[]func(*world){parallelism(3), refusing("p0", "p1", "p2")}, []int32{0}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			faults := 1
			if podsettest.Full() {
				faults = 2
			}
			(&exploration{t: t, start: newWorld(t, 3, tc.options...), exits: tc.exits, faults: faults}).run()
		})
	}
}
