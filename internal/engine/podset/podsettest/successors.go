// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// edge is one way out of a state.
type edge[W comparable] struct {
	to   encoded[W]
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

// expansion is a state with its ways out.
type expansion[W comparable] struct {
	edges       []edge[W]
	goal        bool
	idle, waits bool
	unordered   bool
	failure     string
}

// expand finds everything that can happen next, of the given kinds, and appends it to the edges. For what happens by itself it plans.
func (x *explorer[W]) expand(n int32, due [kinds]bool, edges []edge[W]) (out expansion[W]) {
	s := &x.nodes[n].state
	out.edges = edges
	add := func(e edge[W]) { out.edges = append(out.edges, e) }
	w := decode(x.podTable, s)
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
				if p != 0 && !x.podTable.pods.unchanged(p) {
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
	if due[itself] || due[faults] {
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

// leftUndone says what a state that nothing is planned in leaves to be done; empty when that is nothing.
func (x *explorer[W]) leftUndone(w *State[W], plan planning.Plan, after W) string {
	if x.Resting == nil || len(plan.Actions) > 0 || after != w.Set {
		return ""
	}
	if err := x.Resting(w); err != nil {
		return "nothing is planned, but " + err.Error()
	}
	return ""
}

// controllerSteps adds the whole plan, each of its actions alone, and each half of an action.
func (x *explorer[W]) controllerSteps(s *encoded[W], w *State[W], plan planning.Plan, after W, add func(edge[W])) {
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
			e := x.event(s, w, single, []planning.Action{action}, err)
			e.forward = true
			e.label = func() string { return "the controller, only: " + DescribeAction(action) }
			add(e)
		}
		for _, half := range Halves(action) {
			partly := w.clone()
			err := x.apply(partly, requestOf(half))
			e := x.event(s, w, partly, []planning.Action{action}, err)
			e.label = func() string { return "the controller, half of: " + DescribeAction(action) }
			add(e)
		}
	}
}

// clusterSteps adds what can happen without the controller and the user.
func (x *explorer[W]) clusterSteps(s *encoded[W], w *State[W], due [kinds]bool, recheck bool, add func(edge[W])) {
	wanted := func(move Move) (kind, bool) {
		if move.isFault() {
			return faults, due[faults] && slices.Contains(x.Faults, move)
		}
		return itself, due[itself]
	}
	for at, pod := range s.pods {
		if pod == 0 {
			continue
		}
		for _, m := range x.movesIn(w, w.Pods[at], pod) {
			why, is := wanted(m.move)
			if !is {
				continue
			}
			name := w.Pods[at].Name
			next, err := x.afterMove(s, w, at, m)
			if err != nil {
				add(edge[W]{failure: err.Error(), label: func() string { return name }})
				continue
			}
			isTime := m.move == PassTime
			add(edge[W]{
				to: next, kind: why, label: func() string { return name + " " + string(m.move) },
				forward: why == itself && (!isTime || recheck), time: isTime,
			})
		}
	}
	for _, m := range nodeMoves(x.Cluster, w) {
		if why, is := wanted(m.move); is {
			add(x.nodeEdge(s, w, m, why))
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
			add(edge[W]{to: next, label: func() string { return claim.Name + ": " + string(CollectClaims) }, forward: true})
		}
		if !grown(claim) {
			larger := claim.DeepCopy()
			larger.Status.Capacity = larger.Spec.Resources.Requests
			next := *s
			next.claims[at] = x.podTable.claims.add(larger)
			add(edge[W]{to: next, label: func() string { return claim.Name + " " + string(GrowClaim) }, forward: true})
		}
	}
}

// movesIn are the moves of a pod that can happen in this state: a pod that can start on several nodes starts on each of them.
func (x *explorer[W]) movesIn(w *State[W], pod *corev1.Pod, number id) []podMove {
	all := x.podTable.movesOf(number)
	if len(x.Cluster.Nodes) == 0 {
		return all
	}
	var possible []podMove
	for _, m := range all {
		switch {
		case m.move == Start:
			for _, node := range candidates(w.Nodes, pod) {
				possible = append(possible, podMove{Start, x.podTable.startedOn(m.to, node)})
			}
		case x.Cluster.happens(w.Nodes, pod, m.move):
			possible = append(possible, m)
		}
	}
	if x.Cluster.onGoneNode(w.Nodes, pod) && pod.DeletionTimestamp == nil {
		m := podMove{move: CollectOrphan}
		if left := orphanCollected(pod); left != nil {
			m.to = x.podTable.pods.add(x.podTable.settle(left))
		}
		possible = append(possible, m)
	}
	return possible
}

// afterMove is the state after a move of the pod that stands at this place.
func (x *explorer[W]) afterMove(s *encoded[W], w *State[W], at int, m podMove) (encoded[W], error) {
	if m.to == 0 {
		gone := w.clone()
		gone.remove(w.Pods[at].Name)
		return x.encode(s, w, gone)
	}
	next := *s
	next.pods[at] = m.to
	return x.canonical(next), nil
}

// nodeEdge is what follows from a move of a node.
func (x *explorer[W]) nodeEdge(s *encoded[W], w *State[W], m nodeMove, why kind) edge[W] {
	e := edge[W]{kind: why, label: func() string { return "node " + m.node + " " + string(m.move) }, forward: why == itself}
	next := w.clone()
	err := doNode(next, x.Cluster, m)
	for i, pod := range next.Pods {
		if pod != w.Pods[i] {
			next.Pods[i] = x.podTable.kept(pod)
		}
	}
	if err == nil {
		e.to, err = x.encode(s, w, next)
	}
	if err != nil {
		e.failure = err.Error()
	}
	return e
}

// request is an action with what it asks for as text.
type request struct {
	planning.Action
	change, created string
}

func requestOf(action planning.Action) request {
	r := request{Action: action}
	if !EditOf(action).IsZero() {
		change, err := json.Marshal(EditOf(action))
		if err != nil {
			panic(fmt.Sprintf("encoding an edit: %v", err))
		}
		r.change = string(change)
	}
	if action.Step == podset.StepCreate {
		created, err := podset.PodOf(action).Marshal()
		if err != nil {
			panic(fmt.Sprintf("encoding pod %s: %v", podset.PodOf(action).Name, err))
		}
		r.created = string(created)
	}
	return r
}

// apply is Apply, with what it makes of a pod remembered.
func (x *explorer[W]) apply(w *State[W], action request) error {
	var key result
	before := (*corev1.Pod)(nil)
	pod := podset.PodOf(action.Action)
	if pod != nil {
		before = w.Pod(pod.Name)
	}
	switch {
	case action.Step == podset.StepCreate && before == nil:
		key = result{step: action.Step, edit: action.change, created: action.created}
	case before != nil && (action.Step == podset.StepEdit || action.Step == podset.StepDelete):
		key = result{pod: before, step: action.Step, edit: action.change}
	default:
		return Apply(w, action.Action)
	}
	if known := x.podTable.resultOf(key); known != nil {
		createClaims(w, ClaimsOf(action.Action))
		w.put(known)
		return nil
	}
	if err := Apply(w, action.Action); err != nil {
		return err
	}
	normal := x.podTable.normal(w.Pod(pod.Name))
	w.put(normal)
	x.podTable.remember(key, normal)
	return nil
}

// event is the edge of a step of the controller, judged by the invariants.
func (x *explorer[W]) event(s *encoded[W], before, after *State[W], actions []planning.Action, wrong error) edge[W] {
	if wrong != nil {
		return edge[W]{to: *s, failure: wrong.Error()}
	}
	for i, p := range after.Pods {
		if j, found := before.find(p.Name); !found || before.Pods[j] != p {
			after.Pods[i] = x.podTable.normal(p)
		}
	}
	for _, invariant := range x.Always {
		if err := invariant.Check(Event[W]{Before: before, After: after, Actions: actions}); err != nil {
			return edge[W]{to: *s, failure: invariant.Name + ": " + err.Error()}
		}
	}
	for i, p := range after.Pods {
		if j, found := before.find(p.Name); !found || before.Pods[j] != p {
			after.Pods[i] = x.podTable.kept(p)
		}
	}
	to, err := x.encode(s, before, after)
	if err != nil {
		return edge[W]{to: *s, failure: err.Error()}
	}
	return edge[W]{to: to}
}

// encode makes numbers of a state that came from another one, whose objects are known; both are nil for a start.
func (x *explorer[W]) encode(from *encoded[W], before, w *State[W]) (encoded[W], error) {
	to := encoded[W]{set: w.Set}
	if len(w.Pods) > maxObjects || len(w.Claims) > maxObjects {
		return to, fmt.Errorf("a state of %d pods and %d claims; %d are the limit of an exploration", len(w.Pods), len(w.Claims), maxObjects)
	}
	if len(w.Nodes)+len(w.departed) > maxNodes {
		return to, fmt.Errorf("a state of %d nodes; %d are the limit of an exploration", len(w.Nodes)+len(w.departed), maxNodes)
	}
	for i, p := range w.Pods {
		if before != nil {
			if j := slices.Index(before.Pods, p); j >= 0 {
				to.pods[i] = from.pods[j]
				continue
			}
		}
		to.pods[i] = x.podTable.number(p)
	}
	for i, c := range w.Claims {
		if before != nil {
			if j := slices.Index(before.Claims, c); j >= 0 {
				to.claims[i] = from.claims[j]
				continue
			}
		}
		to.claims[i] = x.podTable.claims.add(c)
	}
	if before != nil && slices.Equal(before.Nodes, w.Nodes) && slices.Equal(before.departed, w.departed) {
		to.nodes = from.nodes
	} else {
		for i, n := range slices.Concat(w.Nodes, w.departed) {
			to.nodes[i] = x.podTable.nodes.add(n)
		}
	}
	return x.canonical(to), nil
}
