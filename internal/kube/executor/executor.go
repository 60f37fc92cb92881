// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
)

// DefaultSlice is how long one call of Apply begins new actions.
const DefaultSlice = time.Second

// Options configure an Executor.
type Options struct {
	// Kind is the kind of the owners, for metrics and for telling an earlier owner of the same name from one of another API group.
	Kind schema.GroupKind
	// Writer sends the requests.
	Writer *writer.Writer
	// Pool is shared by all executors of a manager.
	Pool *writer.Pool
	// Recorder takes the events of actions.
	Recorder events.EventRecorder
	// Metrics counts actions.
	Metrics *metrics.Metrics
	// Clock is the time; the real one when nil.
	Clock clock.PassiveClock
	// Prepare completes an object just before it is created, which is the executor's own copy. What it fails with, the creation fails with.
	// Nil: every object is created as it was planned.
	Prepare func(ctx context.Context, ownerKey freshness.Owner, object client.Object) error
	// Slice is how long one call of Apply begins new actions. Zero is DefaultSlice.
	Slice time.Duration
}

// Executor carries out the plans of one kind of owner. It is safe for concurrent use by different owners.
type Executor struct {
	Options

	mu sync.Mutex
	// namespaces are the last windows of any owner, by namespace; swept is when those that are old were dropped last.
	namespaces map[string]window
	swept      time.Time
}

// New returns an Executor.
func New(options Options) *Executor {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Slice == 0 {
		options.Slice = DefaultSlice
	}
	return &Executor{Options: options, namespaces: map[string]window{}}
}

// Apply carries out as much of plan as it can in one time slice, waits for what it began, and says what became of it. state is the owner's.
func (e *Executor) Apply(ctx context.Context, state *State, owner client.Object, plan planning.Plan) planning.Outcome {
	if len(plan.Actions) == 0 {
		e.rest(state)
		return planning.Outcome{Failing: state.failing(e.Clock.Now())}
	}
	r := newRun(e, state, owner, plan)
	r.all(ctx)
	if r.refusedNow && len(plan.Held) > 0 {
		r.recheck(afterRefusal)
	}
	r.log(ctx)
	e.leave(r)
	r.outcome.Failing = state.failing(e.Clock.Now())
	return r.outcome
}

// windowFor is how many actions of an owner may be in flight in a namespace at first: as many as when its last plan ended, if that was a
// moment ago. A rollout is many short plans; only the first of them starts slowly, with one action. Even that is not needed where another
// owner has just got beyond it: what the server refuses, it mostly refuses to a whole namespace. So hundreds of small workloads do not each
// take their first steps one by one.
func (e *Executor) windowFor(state *State, namespace string) int {
	now := e.Clock.Now()
	if last, ok := state.windows[namespace]; ok && now.Sub(last.at) <= windowLasts {
		return last.size
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if last, ok := e.namespaces[namespace]; ok && now.Sub(last.at) <= windowLasts {
		return min(last.size, trustedWindow)
	}
	return 1
}

// leave notes the windows with which a run ended.
func (e *Executor) leave(r *run) {
	now := e.Clock.Now()
	r.state.keepFor(r.actions, now)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range r.lanes {
		last := window{size: l.window, at: now}
		put(&r.state.windows, l.namespace, last)
		e.namespaces[l.namespace] = last
	}
	e.sweep(now)
}

// sweep drops the windows of namespaces that nobody has written to for a while. Owners do not do that: one that is gone comes to no rest. The
// lock is held.
func (e *Executor) sweep(now time.Time) {
	if now.Sub(e.swept) <= windowLasts {
		return
	}
	maps.DeleteFunc(e.namespaces, func(_ string, last window) bool { return now.Sub(last.at) > windowLasts })
	e.swept = now
}

// rest forgets what an owner without anything to do does not need: the failures of its actions at once, windows once they are old.
func (e *Executor) rest(state *State) {
	state.refused = nil
	now := e.Clock.Now()
	maps.DeleteFunc(state.windows, func(_ string, last window) bool { return now.Sub(last.at) > windowLasts })
	if len(state.windows) == 0 {
		state.windows = nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sweep(now)
}
