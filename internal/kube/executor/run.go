// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
)

const (
	// recheckLeft is when to plan again after leaving actions for lack of time.
	// recheckConflict is the latest time to plan after a conflict: the object's event
	// usually comes first.
	recheckLeft     = 10 * time.Millisecond
	recheckConflict = time.Second
	// refusalsToPause refusals in a row, of one step in one namespace, make the step's
	// other actions wait; conflictsToPause conflicts likewise. One conflict is ordinary,
	// but after ten without a success the next request has no better chance.
	refusalsToPause  = 3
	conflictsToPause = 10
	// overtime is how long after its time slice a run over several namespaces waits for its
	// last writes. One namespace's hanging writes must not keep the owner from the others
	// until their deadline.
	overtime = 5 * time.Second
)

// run is one call of Apply.
type run struct {
	executor *Executor
	owner    client.Object
	ownerKey freshness.Owner
	actions  []planning.Action
	// yielding are the keys of actions not carried out.
	yielding map[planning.RetryKey]bool
	// lanes are the actions' namespaces, in the order of first use.
	lanes       []*lane
	byNamespace map[string]*lane

	// mu guards the fields below, and the lanes: each action ends in its own goroutine.
	mu    sync.Mutex
	state *State
	// refusedNow is true after a failed try.
	refusedNow bool
	failures   map[int]planning.Failure
	outcome    planning.Outcome
}

// lane is a run in one namespace. Lanes do not wait for each other.
type lane struct {
	namespace string
	// queue are indexes of actions not begun.
	queue []int
	// window is how many actions may be in flight, inFlight how many are. over is signaled when one is over.
	window, inFlight int
	over             *sync.Cond
	// refused and conflicted count the refusals and conflicts of a step since its last success.
	refused, conflicted map[planning.Step]int
}

func newRun(e *Executor, state *State, owner client.Object, plan planning.Plan) *run {
	actions := plan.Actions
	r := &run{
		executor: e, owner: owner, ownerKey: freshness.OwnerOf(owner), state: state, actions: actions, yielding: plan.Aside,
		failures: map[int]planning.Failure{},
		outcome:  planning.Outcome{Steps: map[planning.Step]int{}},
	}
	r.state.begin(owner.GetGeneration())
	for _, i := range r.order() {
		l := r.lane(actions[i].Object.GetNamespace())
		l.queue = append(l.queue, i)
	}
	return r
}

// lane returns the lane of a namespace.
func (r *run) lane(namespace string) *lane {
	if l := r.byNamespace[namespace]; l != nil {
		return l
	}
	l := &lane{
		namespace: namespace, window: r.executor.windowFor(namespace), over: sync.NewCond(&r.mu),
		refused: map[planning.Step]int{}, conflicted: map[planning.Step]int{},
	}
	r.lanes = append(r.lanes, l)
	lazy.Put(&r.byNamespace, namespace, l)
	return l
}

// order is the plan's, with recently refused actions last: a few hopeless ones must not
// pause the whole step. Fewer than pause a step keep their place once due. Otherwise they
// would wait for all others.
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
	var lanes sync.WaitGroup
	for _, l := range r.lanes {
		lanes.Go(func() { r.carryOut(ctx, slice, l) })
	}
	lanes.Wait()
	for i := range r.actions {
		if failure, ok := r.failures[i]; ok {
			r.outcome.Failures = append(r.outcome.Failures, failure)
		}
	}
}

// carryOut begins the actions of a lane while the slice lasts, and waits until they are over.
func (r *run) carryOut(ctx, slice context.Context, l *lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, i := range l.queue {
		for l.inFlight >= l.window {
			l.over.Wait()
		}
		if r.waits(i) {
			continue
		}
		r.mu.Unlock()
		end, ok := r.executor.Pool.Begin(slice, l.namespace)
		r.mu.Lock()
		if !ok {
			r.leave(l.queue[at:]...)
			break
		}
		l.inFlight++
		go r.do(ctx, l, i, end)
	}
	for l.inFlight > 0 {
		l.over.Wait()
	}
}

// do carries out one action.
func (r *run) do(ctx context.Context, l *lane, i int, end func()) {
	err := r.executor.carryOut(ctx, r.owner, r.ownerKey, &r.actions[i])
	end()
	r.mu.Lock()
	defer r.mu.Unlock()
	l.inFlight--
	r.conclude(l, i, err)
	l.over.Signal()
}

// log tells the outcome in one line: thousands of lines, one per pod, cost too much. They
// are at level Debug.
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

// waits is true, and noted, if the action has to wait: it or its step was refused lately,
// it replaces the slot's object once more, or it yields.
func (r *run) waits(i int) bool {
	a := &r.actions[i]
	now := r.executor.Clock.Now()
	var wait time.Duration
	if len(r.state.refused) > 0 {
		wait = max(r.state.wait(a.RetryKey(), now), r.state.wait(stepOf(a.RetryKey()), now))
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

// leave notes actions not begun for lack of time.
func (r *run) leave(actions ...int) {
	for _, i := range actions {
		r.postpone(i)
	}
	r.recheck(recheckLeft)
}

// postpone notes an action not begun now. If its last try was refused, it is reported with
// this failure: the speed of other actions must not decide if the owner tells of it.
func (r *run) postpone(i int) {
	a := &r.actions[i]
	last := r.state.refused[a.RetryKey()]
	if last.count == 0 {
		r.outcome.Left = append(r.outcome.Left, i)
		return
	}
	r.failures[i] = planning.Failure{Step: a.Step, Slot: a.Slot, Message: last.message, Taken: last.taken, Since: last.since}
}

// conclude processes a finished action.
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
			delete(s.refused, stepOf(a.RetryKey()))
		}
		if a.ReplacesFailed {
			s.replace(a, now)
		}
	case verdictConflict:
		r.recheck(recheckConflict)
		limit := conflictsToPause
		if s.refused[stepOf(a.RetryKey())].count > 0 {
			limit = 1 // the step has paused, and nothing has succeeded since: one try is enough to see that it still meets conflicts
		}
		if l.conflicted[a.Step]++; l.conflicted[a.Step] == limit {
			l.window = 1
			r.pause(a)
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
		taken := errors.As(err, &takenError{})
		if taken {
			longest = longestTaken
		}
		r.recheck(s.refuse(a.RetryKey(), retry{message: message, doubt: v == verdictDoubt, taken: taken}, longest, now))
		since := s.refused[a.RetryKey()].since
		r.failures[i] = planning.Failure{Step: a.Step, Slot: a.Slot, Message: message, Refused: v == verdictRefused, Taken: taken, Since: since}
		hangs := len(r.lanes) > 1 && errors.Is(err, context.DeadlineExceeded)
		if hangs || l.refused[a.Step] == refusalsToPause {
			r.pause(a)
		}
	}
}

// pause lets the other actions of a step wait in a namespace.
func (r *run) pause(a *planning.Action) {
	r.recheck(r.state.refuse(stepOf(a.RetryKey()), retry{}, longestPause, r.executor.Clock.Now()))
}

func (r *run) recheck(after time.Duration) {
	if r.outcome.RecheckAfter == 0 || after < r.outcome.RecheckAfter {
		r.outcome.RecheckAfter = after
	}
}
