// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// Pass is one pass over an object: from Begin, through observing, planning and applying, to Finish.
type Pass struct {
	*Base
	// Stored is the object as it is stored. It belongs to the cache and is read-only.
	Stored *unstructured.Unstructured
	// Memory is the object's.
	Memory *Memory

	leave func()
	// began is when the pass began.
	began time.Time
	// asked is the time spent on the server's answers, planned the time of the first plan.
	asked   time.Duration
	planned time.Time
	// again is when to look again; zero: only an event can change anything.
	again time.Duration
}

// Begin begins a pass over the object of this name if it may be planned now: it is
// decodable, not paused, not planned a moment ago and not reported deleted, its namespace
// may have a worker, and the cache shows all writes for it. Call End when the pass is over.
//
// Otherwise pass is nil; return result and err from Reconcile. An undecodable object gets a
// condition about it, and False conditions of the types in alsoFalse. A deleted object is
// forgotten.
func Begin[T any](ctx context.Context, b *Base, name types.NamespacedName, alsoFalse ...string) (pass *Pass, object *T, result ctrl.Result, err error) {
	stored, err := b.stored(ctx, name)
	if stored == nil {
		return nil, nil, ctrl.Result{}, err
	}
	pass, wait := b.begin(ctx, stored)
	if pass == nil {
		return nil, nil, ctrl.Result{RequeueAfter: wait}, nil
	}
	object, err = decode[T](stored)
	pass.Memory.undecodable = err != nil
	if err != nil {
		defer pass.End()
		result, err = b.ReportUndecodable(ctx, stored, err, alsoFalse...)
		return nil, nil, result, err
	}
	return pass, object, ctrl.Result{}, nil
}

// stored returns a stored object; nil if it does not exist. It belongs to the cache: a copy
// would be the costliest part of an idle pass.
func (b *Base) stored(ctx context.Context, name types.NamespacedName) (*unstructured.Unstructured, error) {
	stored := Object(b.Kind)
	err := b.Cache.Get(ctx, name, stored, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		b.Forget(name)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	return stored, nil
}

// begin returns a pass over a stored object, or nil and the delay of a requeue. An object
// enqueued for a free worker with nothing to do leaves it to the next in line.
func (b *Base) begin(ctx context.Context, stored *unstructured.Unstructured) (*Pass, time.Duration) {
	name := client.ObjectKeyFromObject(stored)
	owner := freshness.OwnerOf(stored)
	memory := b.memories.of(owner)
	now := b.Clock.Now()
	if wait := max(memory.Pace.WaitFor(now, stored.GetGeneration()), memory.status.Gone(now)); wait > 0 {
		b.Pool.Forget(b.Name, b.Workers, name)
		return nil, wait
	}
	leave, ok := b.Pool.Enter(b.Name, b.Workers, name, func() { b.Enqueue(name) })
	if !ok {
		return nil, waitForWorker
	}
	if Paused(stored) {
		defer leave()
		return nil, b.reportPaused(ctx, stored)
	}
	wait, err := b.Tracker.Ready(ctx, owner)
	if wait == 0 {
		return &Pass{Base: b, Stored: stored, Memory: memory, leave: leave, began: b.Clock.Now()}, 0
	}
	leave()
	wait = max(wait, memory.Pace.Incomplete(b.Clock.Now(), stored.GetGeneration()))
	b.Metrics.StaleViews.WithLabelValues(b.Kind.Kind).Inc()
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("Waiting: a write is in doubt", "err", err.Error())
	}
	return nil, wait
}

// decode reads a stored object into its type. The error names the misfit field.
func decode[T any](stored *unstructured.Unstructured) (*T, error) {
	object := new(T)
	err := quantity.FromUnstructured(stored.Object, object)
	if err == nil {
		return object, nil
	}
	// The converter is faster, but only errors of JSON name the field.
	if body, marshalErr := json.Marshal(stored.Object); marshalErr == nil {
		err = cmp.Or(quantity.Unmarshal(body, new(T)), err)
	}
	return nil, err
}

// Apply carries out as much of a plan for the object as it can in one time slice, and returns the outcome.
func (p *Pass) Apply(ctx context.Context, object client.Object, plan planning.Plan) planning.Outcome {
	if p.planned.IsZero() {
		p.planned = p.Clock.Now()
	}
	outcome := p.Executor.Apply(ctx, &p.Memory.actions, object, plan)
	p.LookAgain(plan.RecheckAfter, outcome.RecheckAfter)
	return outcome
}

// Refused remembers the last refusal of the API server for an object. Empty: none.
type Refused struct{ Last string }

// Apply carries out writes, and has the object planned again when something came of them.
func (r *Refused) Apply(ctx context.Context, pass *Pass, object client.Object, actions []planning.Action) {
	outcome, refused := pass.Apply(ctx, object, planning.Plan{Actions: actions}), ""
	if len(outcome.Failures) > 0 {
		refused = outcome.Failures[0].Message
	}
	if outcome.Done > 0 || r.Last != refused {
		pass.LookAgain(Busy)
	}
	r.Last = refused
}

// LookAgain has the object planned again after the shortest of the waits that are above zero, also when nothing happens.
func (p *Pass) LookAgain(waits ...time.Duration) { p.again = Earliest(append(waits, p.again)...) }

// Retries are the object's failed actions.
func (p *Pass) Retries() planning.Retries {
	return p.Memory.actions.Retries(p.Stored.GetGeneration(), p.Clock.Now())
}

// WriteStatus writes the object's status. Unless urgent, a change of counters and messages alone too soon after another write is
// skipped; retry it after wait.
func (p *Pass) WriteStatus(ctx context.Context, status any, urgent bool) (wait time.Duration, err error) {
	if p.planned.IsZero() {
		p.planned = p.Clock.Now()
	}
	return p.Status.Write(ctx, &p.Memory.status, p.Stored, status, urgent)
}

// Report is a pass's result.
type Report struct {
	// Status is the whole status. It is written at once if more than counters and messages changed, or if it is urgent.
	Status any
	Urgent bool
	// Events are about what no action says, Action is what the operator was doing, in one word.
	Action string
	Events []planning.Event
	// Then is done when the status is written; nil: nothing.
	Then func() error
	// Failed is what went wrong before without making the pass useless.
	Failed error
}

// Report writes the status, and ends the pass. The status is written even when some action failed: it is how the user learns about it. Events wait for it.
func (p *Pass) Report(ctx context.Context, object client.Object, r Report) (ctrl.Result, error) {
	wait, err := p.WriteStatus(ctx, r.Status, r.Urgent)
	if err == nil && wait == 0 {
		p.EmitEvents(object, r.Action, r.Events)
		if r.Then != nil {
			err = r.Then()
		}
	}
	return p.Finish(errors.Join(r.Failed, err), wait)
}

// lookAfterWrites is when an object is planned again after a write without an event: an
// object created and deleted during an interrupted watch causes none.
const lookAfterWrites = 5 * time.Second

// Finish notes that the object was planned, so that it is not planned again too soon. It returns what Reconcile returns: err, or the shortest of the waits
// that are above zero, those of LookAgain included. With an error, the object is also requeued after that wait when its back-off is longer, because an error outside of the plan must
// not delay grace periods and retries.
func (p *Pass) Finish(err error, waits ...time.Duration) (ctrl.Result, error) {
	now := p.Clock.Now()
	if p.planned.IsZero() {
		p.planned = now
	}
	p.Memory.Pace.Passed(now, p.Stored.GetGeneration(), p.planned.Sub(p.began)-p.asked, now.Sub(p.planned))
	if p.Tracker.Unseen(freshness.OwnerOf(p.Stored), p.Kind) {
		waits = append(waits, lookAfterWrites)
	}
	p.LookAgain(waits...)
	wait := p.again
	if err != nil {
		if wait > 0 {
			p.enqueueAfter(client.ObjectKeyFromObject(p.Stored), wait)
		}
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}

// End gives the worker back.
func (p *Pass) End() { p.leave() }

// Earliest returns the shortest wait above zero.
func Earliest(waits ...time.Duration) time.Duration {
	waits = slices.DeleteFunc(waits, func(d time.Duration) bool { return d <= 0 })
	if len(waits) == 0 {
		return 0
	}
	return slices.Min(waits)
}
