// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// An exploration visits every reachable state of a small cluster with one job: by whole
// passes, passes with one action before the operator dies, ending pods, and a limited number
// of faults: nodes joining, leaving, recreated or cordoned, deleted pods. In each step:
//
//   - no node has two pods at work, or gets a pod after its pod has ended or restarted too often; an evicted pod has not ended;
//   - no more pods are created than parallelism allows;
//   - an ended job stays as it is;
//   - from every state the job can end, or rest and wait for its user.
type exploration struct {
	t *testing.T
	// start is the first state, pods how they can end.
	start *simulation
	ends  []corev1.PodPhase
	// faults limits the faults of one history.
	faults int
	rests  func(*simulation) bool
	walk   podsettest.Walk[state]
}

// state is a cluster with its job, and the history needed by the rules.
type state struct {
	w *simulation
	// faults is how many may still happen.
	faults int
	// served are the nodes, by UID, with an ended pod.
	served map[string]bool
}

type visited = podsettest.Visited[state]

// clone copies a simulation. Nodes, pods and the job are never changed where they are.
func (w *simulation) clone() *simulation {
	c := *w
	c.nodes, c.pods, c.made = maps.Clone(w.nodes), maps.Clone(w.pods), maps.Clone(w.made)
	c.log = &strings.Builder{}
	return &c
}

// key is equal for equivalent states.
func (v state) key() string {
	var b strings.Builder
	w := v.w
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		fmt.Fprintf(&b, "%s %s %v;", name, w.nodes[name].UID, w.nodes[name].Spec.Unschedulable)
	}
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		p := w.pods[name]
		restarts := int32(0)
		for _, c := range p.Status.ContainerStatuses {
			restarts += c.RestartCount
		}
		fmt.Fprintf(&b, "%s %s%s %v %d;", name, p.Status.Phase, p.Status.Reason, p.DeletionTimestamp != nil, restarts)
	}
	s := &w.job.Status
	fmt.Fprintf(&b, "%s %v %v %v;", s.Phase, s.StartTime != nil, w.job.Annotations, s.Finished)
	for _, c := range s.Conditions {
		fmt.Fprintf(&b, "%s=%s %s;", c.Type, c.Status, c.Reason)
	}
	fmt.Fprint(&b, v.faults, slices.Sorted(maps.Keys(v.served)))
	return b.String()
}

func (e *exploration) run() {
	e.t.Helper()
	e.walk = podsettest.Walk[state]{T: e.t, Key: state.key, Expand: e.expand}
	e.walk.Run(state{w: e.start, faults: e.faults, served: map[string]bool{}})
}

// visit notes a successor of a state.
func (e *exploration) visit(from *visited, how string, w *simulation, faults int, served map[string]bool) {
	served = maps.Clone(served)
	for _, pod := range w.pods {
		stopped := pod.Status.Phase == corev1.PodFailed && pod.DeletionTimestamp != nil
		if pod.Status.Phase != corev1.PodRunning && !stopped && !podstate.Disrupted(pod) || restarted(pod) {
			served[pod.Annotations["operator.kruise.io/node-uid"]] = true
		}
	}
	e.walk.Visit(from, how, state{w: w, faults: faults, served: served}, faults != from.State.faults)
}

func (e *exploration) expand(v *visited) {
	e.passes(v)
	w := v.State.w
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		pod := w.pods[name]
		node, there := w.nodes[pod.Spec.NodeName]
		move := func(how string, faults int, change func(*simulation)) {
			next := w.clone()
			change(next)
			e.visit(v, fmt.Sprintf("pod of %s %s", pod.Spec.NodeName, how), next, faults, v.State.served)
		}
		switch {
		case pod.DeletionTimestamp != nil, !there:
			move("is gone", v.State.faults, func(w *simulation) { delete(w.pods, name) })
			if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp != nil && v.State.faults > 0 {
				move("is stopped, as failed", v.State.faults, func(w *simulation) {
					w.changePod(name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
				})
			}
		case pod.Status.Phase == corev1.PodRunning && string(node.UID) == pod.Annotations["operator.kruise.io/node-uid"]:
			for _, phase := range e.ends {
				if phase != corev1.PodRunning {
					move(string(phase), v.State.faults, func(w *simulation) { w.changePod(name, func(p *corev1.Pod) { p.Status.Phase = phase }) })
				} else if len(pod.Status.ContainerStatuses) == 0 {
					move("restarts", v.State.faults, func(w *simulation) {
						w.changePod(name, func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}} })
					})
				}
			}
			if v.State.faults > 0 && !restarted(pod) { // who deletes that before anybody has looked takes the evidence away
				move("is deleted by somebody", v.State.faults-1, func(w *simulation) {
					w.changePod(name, func(p *corev1.Pod) { p.DeletionTimestamp = &p.CreationTimestamp })
				})
				move("is evicted", v.State.faults-1, func(w *simulation) {
					w.changePod(name, func(p *corev1.Pod) {
						p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted"
						p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
					})
				})
			}
		case pod.Status.Phase != corev1.PodRunning && v.State.faults > 0 && (podstate.Disrupted(pod) || e.remembered(v, pod)):
			move("is collected", v.State.faults-1, func(w *simulation) { delete(w.pods, name) })
		}
	}
	if v.State.faults == 0 {
		return
	}
	for _, name := range []string{"n0", "n1", "n2"} {
		move := func(how string, change func(*simulation)) {
			next := w.clone()
			change(next)
			e.visit(v, name+" "+how, next, v.State.faults-1, v.State.served)
		}
		node, there := w.nodes[name]
		switch {
		case !there:
			move("joins", func(w *simulation) { w.join(name) })
			continue
		case node.Spec.Unschedulable:
			move("is uncordoned", func(w *simulation) { w.cordon(name, false) })
		default:
			move("is cordoned", func(w *simulation) { w.cordon(name, true) })
		}
		move("leaves", func(w *simulation) { delete(w.nodes, name) })
		move("is created again", func(w *simulation) { w.join(name) })
	}
}

// restarted reports whether a pod has restarted once, too often here.
func restarted(pod *corev1.Pod) bool { return len(pod.Status.ContainerStatuses) > 0 }

// remembered reports whether the status has the end of a pod. Nobody collects pods at their end.
func (e *exploration) remembered(v *visited, pod *corev1.Pod) bool {
	node := v.State.w.nodes[pod.Spec.NodeName]
	return recordOf(v.State.w.job.Status.Finished).outcomes[keyOf(node.Name, node.UID)] != Unfinished
}

// passes runs a whole pass, and passes dying after one action.
func (e *exploration) passes(v *visited) {
	before := v.State.w
	next := before.clone()
	next.pass()
	e.check(v, next, next.decision.Actions)
	e.visit(v, "pass: "+strings.ReplaceAll(next.log.String(), "\n", ";"), next, v.State.faults, v.State.served)
	v.Rests = len(next.decision.Actions) == 0 && state{w: next, faults: v.State.faults, served: v.State.served}.key() == v.State.key() && e.rests(next)
	for _, action := range next.decision.Actions {
		died := before.clone()
		if err := died.carryOut(action); err != nil {
			e.walk.Fail(v, err.Error())
		}
		e.visit(v, fmt.Sprintf("%s %s, and dies", action.Step, action.Slot), died, v.State.faults, v.State.served)
	}
}

// check applies the rules to a pass.
func (e *exploration) check(v *visited, after *simulation, actions []planning.Action) {
	over := ended(Parse(v.State.w.job, v.State.w.bind)) != ""
	atWork := len(strings.Fields(v.State.w.working()))
	created := 0
	for _, action := range actions {
		if over && action.Step != planning.StepDeleteJob {
			e.walk.Fail(v, fmt.Sprintf("the job has ended, and there is %s %s", action.Step, action.Slot))
		}
		if pod := v.State.w.pods[action.Object.GetName()]; action.Step == podset.StepDelete && pod.Status.Phase != corev1.PodRunning && !podstate.Disrupted(pod) {
			e.walk.Fail(v, "a pod that has ended is deleted")
		}
		if action.Step != podset.StepCreate {
			continue
		}
		created++
		uid := action.Object.GetAnnotations()["operator.kruise.io/node-uid"]
		if v.State.served[uid] {
			e.walk.Fail(v, fmt.Sprintf("node %s (%s) gets a second pod", action.Slot, uid))
		}
		if node := v.State.w.nodes[string(action.Slot)]; node == nil || node.Spec.Unschedulable {
			e.walk.Fail(v, fmt.Sprintf("node %s gets a pod and does not fit", action.Slot))
		}
	}
	if limit := after.decision.limit; created > 0 && atWork+created > limit {
		e.walk.Fail(v, fmt.Sprintf("%d pods at work and %d more, allowed are %d", atWork, created, limit))
	}
	seen := map[string]bool{}
	for _, name := range strings.Fields(after.working()) {
		if seen[name] {
			e.walk.Fail(v, "two pods work on "+name)
		}
		seen[name] = true
	}
	none := appsv1beta1.FinishedNodes{}
	is, was := ptr.Deref(after.job.Status.Finished, none).Failures, ptr.Deref(v.State.w.job.Status.Finished, none).Failures
	if is < was {
		e.walk.Fail(v, "failures were forgotten")
	}
	if is > 0 && !slices.ContainsFunc(e.ends, func(end corev1.PodPhase) bool { return end != corev1.PodSucceeded }) && after.job.Spec.CompletionPolicy.ActiveDeadlineSeconds == nil {
		e.walk.Fail(v, "a pod counts as failed, and no program has failed")
	}
}

func TestExplore(t *testing.T) {
	succeeded, failed := corev1.PodSucceeded, corev1.PodFailed
	over := func(kind string) func(*simulation) bool {
		return func(w *simulation) bool { reason, _ := w.condition(kind); return reason != "" }
	}
	// Without a fitting node, a job waits for its user.
	completed := func(w *simulation) bool { return over("Complete")(w) || w.decision.view.desired == 0 }
	// A job past its deadline has failed, unless all its pods had succeeded unseen.
	inTime := func(w *simulation) bool {
		status := &w.job.Status
		return over("Failed")(w) || over("Complete")(w) && status.Succeeded == status.Desired
	}
	cases := map[string]struct {
		options []func(*simulation)
		ends    []corev1.PodPhase
		// faults of make test-all; the daily run has at most one.
		faults int
		rests  func(*simulation) bool
	}{
		"pods succeed, one at a time": {[]func(*simulation){parallelism("1")}, []corev1.PodPhase{succeeded}, 2, completed},
		"pods succeed, all at once":   {nil, []corev1.PodPhase{succeeded}, 2, completed},
		"failures are passed over":    {[]func(*simulation){onFailure(appsv1beta1.BroadcastJobContinue), parallelism("2")}, []corev1.PodPhase{succeeded, failed}, 1, completed},
		"a failure ends the job": {
			[]func(*simulation){parallelism("2")}, []corev1.PodPhase{succeeded, failed}, 1,
			func(w *simulation) bool { return completed(w) || over("Failed")(w) },
		},
		"a failure pauses the job": {
			[]func(*simulation){onFailure(appsv1beta1.BroadcastJobPause), parallelism("2")}, []corev1.PodPhase{succeeded, failed}, 1,
			func(w *simulation) bool { return completed(w) || w.decision.Stage == PausedByFailure },
		},
		"too many restarts are passed over": {
			[]func(*simulation){restarts(0), onFailure(appsv1beta1.BroadcastJobContinue), parallelism("2")}, []corev1.PodPhase{succeeded, corev1.PodRunning}, 1, completed,
		},
		"too many restarts end the job": {
			[]func(*simulation){restarts(0)}, []corev1.PodPhase{succeeded, corev1.PodRunning}, 1, func(w *simulation) bool { return completed(w) || over("Failed")(w) },
		},
		"a job that never completes": {
			[]func(*simulation){never, parallelism("2")}, []corev1.PodPhase{succeeded}, 2,
			func(w *simulation) bool {
				return w.decision.view.desired == w.decision.view.succeeded
			},
		},
		"a deadline that is over": {
			[]func(*simulation){func(w *simulation) { w.at(0); deadline(0)(w) }}, []corev1.PodPhase{succeeded}, 1, inTime,
		},
		"a deadline that is over, while failures pause the job": {
			[]func(*simulation){func(w *simulation) { w.at(0); deadline(0)(w) }, onFailure(appsv1beta1.BroadcastJobPause)}, []corev1.PodPhase{succeeded}, 1, inTime,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			faults, nodes := tc.faults, 3
			if !sample.All() {
				faults = min(faults, 1)
				if strings.HasPrefix(name, "too many restarts") {
					nodes = 2 // three have 60,000 states
				}
			}
			(&exploration{t: t, start: newSimulation(t, nodes, tc.options...), ends: tc.ends, faults: faults, rests: tc.rests}).run()
		})
	}
}
