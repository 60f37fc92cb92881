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
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// An exploration visits every reachable state of a small namespace with one job. Its moves are whole passes,
// passes dying after one action and forgetting refusals, containers running and ending, and a few faults: pods
// deleted, added or given a foreign container of the name, and a refusing server. In each step:
//
//   - at most parallelism pods have containers, unstarted ones included;
//   - no pod with a container of the name, whoever added it, gets one, and none is added after the job's end;
//   - a job is Succeeded only if all targets have succeeded, and its status then stays;
//   - every state leads to the job's end, or to rest without a target.
type exploration struct {
	t *testing.T
	// start is the first state, exits are the containers' exit codes.
	start  *simulation
	exits  []int32
	faults int
	walk   podsettest.Walk[state]
}

// state is a namespace with its job, and how many faults may still happen.
type state struct {
	w      *simulation
	faults int
}

type visited = podsettest.Visited[state]

// clone copies a simulation. Pods and the job are never changed where they are.
func (w *simulation) clone() *simulation {
	c := *w
	c.pods, c.refused, c.refuses = maps.Clone(w.pods), maps.Clone(w.refused), maps.Clone(w.refuses)
	c.log = &strings.Builder{}
	return &c
}

// key is equal for states with the same future.
func (v state) key() string {
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
	e.walk = podsettest.Walk[state]{T: e.t, Key: state.key, Expand: func(v *visited) {
		e.passes(v)
		e.containers(v)
		if v.State.faults > 0 {
			e.disturb(v)
		}
	}}
	e.walk.Run(state{w: e.start, faults: e.faults})
}

func (e *exploration) visit(from *visited, how string, w *simulation, faults int) {
	e.walk.Visit(from, how, state{w: w, faults: faults}, faults != from.State.faults)
}

func (e *exploration) move(v *visited, how string, cost int, change func(*simulation)) {
	next := v.State.w.clone()
	change(next)
	e.visit(v, how, next, v.State.faults-cost)
}

// containers lets containers of the job run and end.
func (e *exploration) containers(v *visited) {
	for _, name := range strings.Fields(v.State.w.served()) {
		list := v.State.w.pods[name].Status.EphemeralContainerStatuses
		switch {
		case len(list) == 0:
			e.move(v, name+" runs it", 0, func(w *simulation) { w.run(name) })
		case list[0].State.Running != nil:
			for _, code := range e.exits {
				e.move(v, fmt.Sprintf("%s ends with %d", name, code), 0, func(w *simulation) { w.exit(code, name) })
			}
		}
	}
}

// disturb lets one fault happen.
func (e *exploration) disturb(v *visited) {
	for _, name := range slices.Sorted(maps.Keys(v.State.w.pods)) {
		e.move(v, name+" is deleted", 1, func(w *simulation) { delete(w.pods, name) })
		if len(v.State.w.pods[name].Spec.EphemeralContainers) == 0 {
			e.move(v, name+" gets the name from another", 1, func(w *simulation) {
				w.changePod(name, func(pod *corev1.Pod) { pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{ephemeral("dbg")} })
			})
			e.move(v, name+" is refused", 1, func(w *simulation) { w.refuses[name] = !w.refuses[name] })
		}
	}
	if len(v.State.w.pods) < 3 {
		e.move(v, "a pod joins", 1, func(w *simulation) { w.join(corev1.PodRunning) })
	}
}

// working counts the pods with unended containers of the job.
func (w *simulation) working() int {
	working := 0
	for _, name := range strings.Fields(w.served()) {
		list := w.pods[name].Status.EphemeralContainerStatuses
		if len(list) == 0 || list[0].State.Terminated == nil {
			working++
		}
	}
	return working
}

// passes runs a whole pass, and passes dying after one action.
func (e *exploration) passes(v *visited) {
	next := v.State.w.clone()
	next.pass()
	e.check(v, next)
	e.visit(v, "pass: "+strings.ReplaceAll(next.log.String(), "\n", ";"), next, v.State.faults)
	over := next.job.Status.CompletionTime != nil || len(next.decision.view.targets) == 0
	v.Rests = over && len(next.decision.Actions) == 0 && state{w: next, faults: v.State.faults}.key() == v.State.key()
	for _, action := range next.decision.Actions {
		died := v.State.w.clone()
		died.refused = nil
		if !died.refuses[string(action.Slot)] {
			if err := died.carryOut(action); err != nil {
				e.walk.Fail(v, err.Error())
			}
		}
		if v.State.faults > 0 {
			e.visit(v, fmt.Sprintf("%s %s, and dies", action.Step, action.Slot), died, v.State.faults-1)
		}
	}
}

func (e *exploration) check(v *visited, after *simulation) {
	before := v.State.w
	ended := before.job.Status.CompletionTime != nil
	limit := Parse(before.job).Parallelism
	added := 0
	for _, action := range after.decision.Actions {
		if action.Step != StepAdd {
			continue
		}
		added++
		if ended || len(before.pods[string(action.Slot)].Spec.EphemeralContainers) > 0 {
			e.walk.Fail(v, fmt.Sprintf("containers are added to %s; the job has ended: %v", action.Slot, ended))
		}
	}
	if working := before.working(); added > 0 && working+added > limit {
		e.walk.Fail(v, fmt.Sprintf("containers work in %d pods and %d more, allowed are %d", working, added, limit))
	}
	is := &after.job.Status
	if ended {
		if diff := cmp.Diff(&before.job.Status, is); diff != "" {
			e.walk.Fail(v, "the status of a job that has ended changes:\n"+diff)
		}
		return
	}
	good := is.Matches > 0 && is.Succeeded == is.Matches && is.Failed == 0
	if (is.Phase == appsv1beta1.EphemeralJobSucceeded) != good {
		e.walk.Fail(v, fmt.Sprintf("status %+v", is))
	}
	if is.Matches > 0 && is.Succeeded+is.Failed == is.Matches && is.CompletionTime == nil {
		e.walk.Fail(v, "all targets have ended, and the job has not")
	}
	if is.Running+is.Waiting+is.Succeeded+is.Failed > is.Matches {
		e.walk.Fail(v, fmt.Sprintf("counters %+v", is))
	}
}

func TestExplore(t *testing.T) {
	cases := map[string]struct {
		options []func(*simulation)
		exits   []int32
	}{
		"one at a time":        {nil, []int32{0, 1}},
		"two at a time":        {[]func(*simulation){parallelism(2)}, []int32{0, 1}},
		"two of three":         {[]func(*simulation){parallelism(2), replicas(2)}, []int32{0, 1}},
		"one pod is refused":   {[]func(*simulation){refusing("p1")}, []int32{0}},
		"all pods are refused": {[]func(*simulation){parallelism(3), refusing("p0", "p1", "p2")}, []int32{0}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			faults := 1
			if sample.All() {
				faults = 2
			}
			(&exploration{t: t, start: newSimulation(t, 3, tc.options...), exits: tc.exits, faults: faults}).run()
		})
	}
}
