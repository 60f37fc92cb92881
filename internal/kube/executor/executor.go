// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
)

// Slice is how long one call of Apply begins new actions.
const Slice = time.Second

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
	// Clock is the time.
	Clock clock.PassiveClock
	// Prepare completes the executor's copy of an object just before its creation; its
	// error fails the creation. Nil: objects are created as planned.
	Prepare func(ctx context.Context, ownerKey freshness.Owner, object client.Object) error
	// Slice is how long one call of Apply begins new actions. It is Slice but in tests.
	Slice time.Duration
}

// Executor carries out the plans of one kind of owner. It is safe for concurrent use by different owners.
type Executor struct {
	Options
	// windows are how many actions ran at a time in each namespace.
	windows *cache.LRUExpireCache
}

// New returns an Executor.
func New(options Options) *Executor {
	return &Executor{Options: options, windows: cache.NewLRUExpireCacheWithClock(maxWindows, options.Clock)}
}

// Apply carries out the plan within one time slice, waits for the begun actions, and
// returns the outcome. state is the owner's.
func (e *Executor) Apply(ctx context.Context, state *State, owner client.Object, plan planning.Plan) planning.Outcome {
	if len(plan.Actions) == 0 {
		state.refused = nil
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

// windowFor is the number of actions in flight in a namespace at first: the last plan's
// final one, if recent. A rollout is many short plans, and only the first starts slowly. So
// does only the first of hundreds of small workloads: the server mostly refuses a whole
// namespace.
func (e *Executor) windowFor(namespace string) int {
	last, _ := e.windows.Get(namespace)
	size, _ := last.(int)
	return max(size, 1)
}

// leave notes the final windows of a run.
func (e *Executor) leave(r *run) {
	r.state.keepFor(r.actions, e.Clock.Now())
	for _, l := range r.lanes {
		e.windows.Add(l.namespace, l.window, windowLasts)
	}
}
