// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
)

const (
	// recheckLeft is when to plan again after actions were left for lack of time. recheckConflict is the latest time to plan again after a conflict:
	// the event about the object that has changed usually comes first.
	recheckLeft     = 10 * time.Millisecond
	recheckConflict = time.Second
	// refusalsToPause is after how many refusals in a row, of one step in one namespace, the other actions of that step wait. conflictsToPause is the
	// same for conflicts. One conflict is ordinary, but after ten without a success the next request has no better chance.
	refusalsToPause  = 3
	conflictsToPause = 10
	// overtime is how long after its time slice a run over several namespaces waits for its last writes. A namespace in which writes hang until their
	// deadline must not keep the owner from the other namespaces for so long.
	overtime = 5 * time.Second
)

// run is one call of Apply. All fields belong to the goroutine of Apply.
type run struct {
	executor *Executor
	owner    client.Object
	ownerKey freshness.Owner
	state    *State
	actions  []planning.Action
	// yielding are the keys of actions that are not carried out.
	yielding map[planning.RetryKey]bool
	// refusedNow says that an action was tried and failed.
	refusedNow bool

	// lanes are the namespaces that the actions write to, in the order of their first action.
	lanes []*lane
	// inFlight is how many actions are under way, those that wait for a place in the pool included.
	inFlight int
	messages chan message
	// work hands tasks to workers that have done theirs, of which there are idle: a new goroutine for each of thousands of actions would have to
	// grow its stack each time.
	work     chan task
	idle     int
	failures map[int]planning.Failure
	outcome  planning.Outcome
}

// lane is what a run does in one namespace. Lanes do not wait for each other.
type lane struct {
	namespace string
	// queue are the actions that have not begun, as indexes.
	queue []int
	// window is how many actions may be in flight, inFlight how many are.
	window, inFlight int
	// waiting says that an action waits for a place in the pool. Only one of an owner does, so that others get their turn.
	waiting bool
	// refused and conflicted count the refusals and conflicts of a step since its last success.
	refused, conflicted map[planning.Step]int
}

// task is an action that is to be carried out, with a place in the pool that it may have to wait for.
type task struct {
	ctx, slice context.Context
	lane       *lane
	index      int
	place      *writer.Place
	given      bool
}

// message is what an action under way reports: once that it has got its place after a wait, and once that it is over.
type message struct {
	lane  *lane
	index int
	what  event
	err   error
}

type event int

const (
	// over: the action was carried out, or failed with err.
	over event = iota
	// placed: the action that waited has its place now, and goes on.
	placed
	// left: the slice ended before the action had a place.
	left
)

func newRun(e *Executor, state *State, owner client.Object, plan planning.Plan) *run {
	actions := plan.Actions
	r := &run{
		executor: e, owner: owner, ownerKey: freshness.OwnerOf(owner), state: state, actions: actions, yielding: plan.Yielding,
		messages: make(chan message, e.Pool.Writes()),
		work:     make(chan task),
		failures: map[int]planning.Failure{},
		outcome:  planning.Outcome{Steps: map[planning.Step]int{}},
	}
	r.state.begin(owner.GetGeneration())
	order := r.order()
	if first := actions[0].Object.GetNamespace(); !slices.ContainsFunc(actions, func(a planning.Action) bool { return a.Object.GetNamespace() != first }) {
		r.lane(first).queue = order
		return r
	}
	for _, i := range order {
		l := r.lane(actions[i].Object.GetNamespace())
		l.queue = append(l.queue, i)
	}
	return r
}

// lane returns the lane of a namespace.
func (r *run) lane(namespace string) *lane {
	for _, l := range r.lanes {
		if l.namespace == namespace {
			return l
		}
	}
	l := &lane{
		namespace: namespace, window: r.executor.windowFor(r.state, namespace),
		refused: map[planning.Step]int{}, conflicted: map[planning.Step]int{},
	}
	r.lanes = append(r.lanes, l)
	return l
}

// order is the order of the plan, except that actions that were refused last time come last: a few that can never succeed must not pause the whole step.
// When there are fewer than pause a step, they keep their place once they are due. Otherwise they would not be tried again before there is time for all
// others.
func (r *run) order() []int {
	order := make([]int, len(r.actions))
	for i := range order {
		order[i] = i
	}
	if len(r.state.refused) == 0 {
		return order
	}
	count := make([]int, len(r.actions))
	now, retries := r.executor.Clock.Now(), 0
	for i := range r.actions {
		last := r.state.refused[r.actions[i].RetryKey()]
		if last.count > 0 && !last.until.After(now) && retries < refusalsToPause-1 {
			retries++
			continue
		}
		count[i] = last.count
	}
	slices.SortStableFunc(order, func(i, j int) int { return count[i] - count[j] })
	return order
}

func (r *run) all(ctx context.Context) {
	slice, cancel := context.WithTimeout(ctx, r.executor.Slice)
	defer cancel()
	if len(r.lanes) > 1 {
		ctx, cancel = context.WithTimeout(ctx, r.executor.Slice+overtime)
		defer cancel()
	}
	defer close(r.work)
	for {
		for _, l := range r.lanes {
			r.begin(ctx, slice, l)
		}
		if r.inFlight == 0 {
			break
		}
		r.take(<-r.messages)
		r.takeReady()
	}
	for i := range r.actions {
		if failure, ok := r.failures[i]; ok {
			r.outcome.Failures = append(r.outcome.Failures, failure)
		}
	}
}

// begin begins as many actions of a lane as it may.
func (r *run) begin(ctx, slice context.Context, l *lane) {
	for len(l.queue) > 0 && !l.waiting && l.inFlight < l.window {
		if slice.Err() != nil {
			r.leave(l.queue...)
			l.queue = nil
			return
		}
		i := l.queue[0]
		l.queue = l.queue[1:]
		if r.waits(i, l) {
			continue
		}
		place, given := r.executor.Pool.Ask(l.namespace)
		l.waiting = !given
		l.inFlight++
		r.inFlight++
		r.assign(task{ctx: ctx, slice: slice, lane: l, index: i, place: place, given: given})
		r.takeReady()
	}
}

// assign gives a task to an idle worker, or to a new one.
func (r *run) assign(t task) {
	if r.idle == 0 {
		go r.worker(t)
		return
	}
	r.idle--
	r.work <- t
}

// worker carries out tasks until the run is over. It touches nothing that changes.
func (r *run) worker(t task) {
	for more := true; more; t, more = <-r.work {
		r.do(t)
	}
}

// do carries out an action once it has a place.
func (r *run) do(t task) {
	if !t.given {
		if !t.place.Wait(t.slice) {
			r.messages <- message{lane: t.lane, index: t.index, what: left}
			return
		}
		r.messages <- message{lane: t.lane, index: t.index, what: placed}
	}
	err := r.executor.carryOut(t.ctx, r.owner, r.ownerKey, &r.actions[t.index])
	t.place.End()
	r.messages <- message{lane: t.lane, index: t.index, err: err}
}

// log says in one line what was done: a line for each of thousands of pods would cost more than it says. Those are at level Debug.
func (r *run) log(ctx context.Context) {
	if r.outcome.Done == 0 {
		return
	}
	var counts []any
	for _, step := range slices.Sorted(maps.Keys(r.outcome.Steps)) {
		counts = append(counts, strings.ToLower(string(step[:1]))+string(step[1:]), r.outcome.Steps[step])
	}
	ctrl.LoggerFrom(ctx).Info("Carried out", counts...)
}

// waits says whether the action has to wait, because it, or its step, was refused lately, because it replaces the slot's object once more, or because it
// yields to others, and notes it.
func (r *run) waits(i int, l *lane) bool {
	a := &r.actions[i]
	now := r.executor.Clock.Now()
	var wait time.Duration
	if len(r.state.refused) > 0 {
		wait = max(r.state.wait(a.RetryKey(), now), r.state.wait(l.step(a), now))
	}
	if wait == 0 && a.ReplacesFailed {
		wait = r.state.replacementDue(a, now)
	}
	yields := r.yielding[a.RetryKey()]
	if wait == 0 && !yields {
		return false
	}
	r.postpone(i)
	if wait > 0 {
		r.recheck(wait)
	}
	return true
}

// step is what is remembered of all actions like this one in the namespace.
func (l *lane) step(a *planning.Action) planning.RetryKey {
	return planning.RetryKey{Step: a.Step, Namespace: l.namespace}
}

// takeReady takes the messages that are there already.
func (r *run) takeReady() {
	for {
		select {
		case m := <-r.messages:
			r.take(m)
		default:
			return
		}
	}
}

// take draws the consequences of a message.
func (r *run) take(m message) {
	l := m.lane
	if m.what != over {
		l.waiting = false
	}
	if m.what == placed {
		return
	}
	l.inFlight--
	r.inFlight--
	r.idle++
	if m.what == left {
		r.leave(m.index)
		return
	}
	r.conclude(l, m.index, m.err)
}

// leave notes that actions were not begun for lack of time.
func (r *run) leave(actions ...int) {
	for _, i := range actions {
		r.postpone(i)
	}
	r.recheck(recheckLeft)
}

// postpone notes that an action is not begun now. One that was refused at its last try has not succeeded since, and is reported with that failure: how
// fast the server takes the others must not decide whether the owner tells of it.
func (r *run) postpone(i int) {
	a := &r.actions[i]
	last := r.state.refused[a.RetryKey()]
	if last.count == 0 {
		r.outcome.Left = append(r.outcome.Left, i)
		return
	}
	r.failures[i] = planning.Failure{Step: a.Step, Slot: a.Slot, Message: last.message, Since: last.since}
}

// conclude draws the consequences of an action that is over.
func (r *run) conclude(l *lane, i int, err error) {
	e, a, s := r.executor, &r.actions[i], r.state
	now := e.Clock.Now()
	v := judge(err)
	e.Metrics.Actions.WithLabelValues(e.Kind.Kind, string(a.Step), string(v)).Inc()
	switch v {
	case verdictOK:
		l.window = min(l.window+1, e.Pool.Writes())
		l.refused[a.Step], l.conflicted[a.Step] = 0, 0
		r.outcome.Done++
		r.outcome.Steps[a.Step]++
		if len(s.refused) > 0 {
			delete(s.refused, a.RetryKey())
			delete(s.refused, l.step(a))
		}
		if a.ReplacesFailed {
			s.replace(a, now)
		}
	case verdictConflict:
		r.recheck(recheckConflict)
		limit := conflictsToPause
		if s.refused[l.step(a)].count > 0 {
			limit = 1 // the step has paused, and nothing has succeeded since: one try is enough to see that it still meets conflicts
		}
		if l.conflicted[a.Step]++; l.conflicted[a.Step] == limit {
			l.window = 1
			r.pause(l, a)
		}
	case verdictGone:
		r.recheck(recheckConflict)
	case verdictRefused, verdictDoubt:
		r.refusedNow = true
		l.window = 1
		l.refused[a.Step]++
		message := oneLine(err.Error(), longestMessage)
		longest := longestDelay
		if v == verdictDoubt || apierrors.IsTooManyRequests(err) || apierrors.IsUnauthorized(err) {
			longest = longestDoubt
		}
		r.recheck(s.refuse(a.RetryKey(), message, v == verdictDoubt, longest, now))
		r.failures[i] = planning.Failure{
			Step: a.Step, Slot: a.Slot, Message: message, Refused: v == verdictRefused, Since: s.refused[a.RetryKey()].since,
		}
		hangs := len(r.lanes) > 1 && errors.Is(err, context.DeadlineExceeded)
		if hangs || l.refused[a.Step] == refusalsToPause {
			r.pause(l, a)
		}
	}
}

// pause lets the other actions of a step wait in a namespace.
func (r *run) pause(l *lane, a *planning.Action) {
	r.recheck(r.state.refuse(l.step(a), "", false, longestPause, r.executor.Clock.Now()))
}

func (r *run) recheck(after time.Duration) {
	if r.outcome.RecheckAfter == 0 || after < r.outcome.RecheckAfter {
		r.outcome.RecheckAfter = after
	}
}
