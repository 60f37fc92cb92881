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
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
)

const (
	// DefaultWriteTimeout is the deadline of one request.
	DefaultWriteTimeout = 15 * time.Second
	// DefaultSlice is how long a pass begins new actions.
	DefaultSlice = time.Second

	// soon is when to plan again after actions were left; ordinary is the latest time to plan again after a conflict, whose
	// event usually comes first.
	soon     = 10 * time.Millisecond
	ordinary = time.Second
	// enough refusals of one verb in a row end the verb's turn, as do manyConflicts: one is ordinary, but when nothing else
	// comes back the next request has no better chance.
	enough        = 3
	manyConflicts = 10
	// longestNote is the limit of an event's note in bytes, longestMessage that of a failure's message.
	longestNote    = 1024
	longestMessage = 512
)

// Options configure an Executor.
type Options struct {
	// Kind is the kind of the workloads, for events and metrics.
	Kind string
	// Client writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Tracker hears of every write.
	Tracker *freshness.Tracker
	// Pool is shared by all executors of a manager.
	Pool *Pool
	// Recorder takes the events of actions.
	Recorder events.EventRecorder
	// Metrics counts actions.
	Metrics *metrics.Metrics
	// Clock is the time; the real one when nil.
	Clock clock.PassiveClock
	// WriteTimeout is the deadline of one request. Zero is DefaultWriteTimeout.
	WriteTimeout time.Duration
	// Slice is how long a pass begins new actions. Zero is DefaultSlice.
	Slice time.Duration
}

// Executor carries out the plans of one kind of workload. It is safe for concurrent use by different workloads.
type Executor struct {
	Options
	backoff *backoff
	churn   *churn
	ramps   *ramps
}

// New returns an Executor.
func New(options Options) *Executor {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.WriteTimeout == 0 {
		options.WriteTimeout = DefaultWriteTimeout
	}
	if options.Slice == 0 {
		options.Slice = DefaultSlice
	}
	return &Executor{
		Options: options,
		backoff: &backoff{clock: options.Clock, owners: map[types.NamespacedName]*refusals{}},
		churn:   &churn{clock: options.Clock, owners: map[types.NamespacedName]*replacements{}},
		ramps:   &ramps{clock: options.Clock, owners: map[types.NamespacedName]ramp{}},
	}
}

// Forget drops what is remembered of an owner that is gone.
func (e *Executor) Forget(owner types.NamespacedName) {
	e.backoff.forget(owner)
	e.churn.forget(owner)
	e.ramps.forget(owner)
}

// Apply carries out as much of plan as it can in one time slice, waits for what it began, and says what became of it.
func (e *Executor) Apply(ctx context.Context, owner client.Object, plan podset.Plan) podset.Outcome {
	if len(plan.Actions) == 0 {
		key := client.ObjectKeyFromObject(owner)
		e.backoff.forget(key)
		e.ramps.cool(key)
		return podset.Outcome{}
	}
	p := &pass{
		executor: e,
		owner:    owner,
		of:       freshness.OwnerOf(owner),
		window:   e.ramps.resume(client.ObjectKeyFromObject(owner)),
		refused:  map[podset.Verb]int{}, conflicted: map[podset.Verb]int{},
		done:     map[podset.Verb]int{},
		results:  make(chan result, len(plan.Actions)),
		failures: map[int]podset.Failure{},
	}
	e.backoff.begin(p.of, owner.GetGeneration())
	p.run(ctx, plan.Actions)
	p.log(ctx)
	e.ramps.leave(p.of.NamespacedName, p.window)
	return p.outcome
}

// pass is one call of Apply. All fields belong to the goroutine of Apply.
type pass struct {
	executor *Executor
	owner    client.Object
	of       freshness.Owner

	// window is how many actions may be in flight, inFlight how many are.
	window, inFlight int
	// refused and conflicted count the refusals and conflicts of a verb since its last success.
	refused, conflicted map[podset.Verb]int
	// done counts what succeeded.
	done map[podset.Verb]int

	results  chan result
	failures map[int]podset.Failure
	outcome  podset.Outcome
}

type result struct {
	index int
	err   error
}

func (p *pass) run(ctx context.Context, actions []podset.Action) {
	e := p.executor
	slice, cancel := context.WithTimeout(ctx, e.Slice)
	defer cancel()

	for at, i := range p.order(actions) {
		for p.inFlight >= p.window {
			p.take(actions)
		}
		p.takeReady(actions)
		if p.waits(i, actions[i]) {
			continue
		}
		end, err := e.Pool.Begin(slice, p.of.Namespace)
		if err != nil {
			p.outcome.Left += len(actions) - at
			p.recheck(soon)
			break
		}
		p.inFlight++
		go func() {
			defer end()
			p.results <- result{index: i, err: e.do(ctx, p.owner, p.of, actions[i])}
		}()
	}
	for p.inFlight > 0 {
		p.take(actions)
	}

	for i := range actions {
		if failure, ok := p.failures[i]; ok {
			p.outcome.Failures = append(p.outcome.Failures, failure)
		}
	}
	e.backoff.keep(p.of.NamespacedName, actions)
}

// log says in one line what was done: a line for each of thousands of pods would cost more than it tells. Those are at level Debug.
func (p *pass) log(ctx context.Context) {
	if p.outcome.Done == 0 {
		return
	}
	var counts []any
	for _, verb := range slices.Sorted(maps.Keys(p.done)) {
		counts = append(counts, strings.ToLower(string(verb[:1]))+string(verb[1:]), p.done[verb])
	}
	ctrl.LoggerFrom(ctx).Info("Carried out", counts...)
}

// order is the order of the plan, except that steps that were refused the last time come after those that were not: a few that
// can never succeed must not use up the patience with the others.
func (p *pass) order(actions []podset.Action) []int {
	order := make([]int, len(actions))
	count := make([]int, len(actions))
	for i, a := range actions {
		order[i] = i
		last, _ := p.executor.backoff.of(p.of, stepOf(a))
		count[i] = last.count
	}
	slices.SortStableFunc(order, func(i, j int) int { return count[i] - count[j] })
	return order
}

// waits says whether the action has to wait, because it, or its verb, was refused lately, or because it replaces the slot's pod once
// more, and notes it.
func (p *pass) waits(i int, a podset.Action) bool {
	last, wait := p.executor.backoff.of(p.of, stepOf(a))
	_, pause := p.executor.backoff.of(p.of, step{verb: a.Verb})
	if last.count > 0 && max(wait, pause) > 0 {
		p.failures[i] = podset.Failure{Verb: a.Verb, Slot: a.Slot, Message: last.message}
	}
	if wait = max(wait, pause); wait == 0 && replaces(a) {
		wait = p.executor.churn.wait(p.of, p.owner.GetGeneration(), a.Slot)
	}
	if wait == 0 {
		return false
	}
	if last.count == 0 {
		p.outcome.Left++
	}
	p.recheck(wait)
	return true
}

// take waits for one result and draws the consequences.
func (p *pass) take(actions []podset.Action) {
	p.conclude(<-p.results, actions)
}

// takeReady does the same with the results that are there already.
func (p *pass) takeReady(actions []podset.Action) {
	for {
		select {
		case r := <-p.results:
			p.conclude(r, actions)
		default:
			return
		}
	}
}

func (p *pass) conclude(r result, actions []podset.Action) {
	p.inFlight--
	e, a := p.executor, actions[r.index]
	verdict := judge(r.err)
	e.Metrics.Actions.WithLabelValues(e.Kind, string(a.Verb), string(verdict)).Inc()
	switch verdict {
	case verdictOK:
		p.window = min(p.window+1, e.Pool.writes)
		p.refused[a.Verb], p.conflicted[a.Verb] = 0, 0
		p.outcome.Done++
		p.done[a.Verb]++
		e.backoff.succeeded(p.of.NamespacedName, stepOf(a))
		e.backoff.succeeded(p.of.NamespacedName, step{verb: a.Verb})
		if replaces(a) {
			e.churn.replaced(p.of, p.owner.GetGeneration(), a.Slot)
		}
	case verdictConflict:
		p.recheck(ordinary)
		many := manyConflicts
		if last, _ := e.backoff.of(p.of, step{verb: a.Verb}); last.count > 0 {
			many = 1 // the verb has paused, and nothing has succeeded since: one try is enough to see that it still meets conflicts
		}
		if p.conflicted[a.Verb]++; p.conflicted[a.Verb] == many {
			p.window = 1
			p.pause(a.Verb)
		}
	case verdictGone:
		p.recheck(ordinary)
	case verdictRefused, verdictDoubt:
		p.window = 1
		p.refused[a.Verb]++
		message := oneLine(r.err.Error(), longestMessage)
		p.failures[r.index] = podset.Failure{Verb: a.Verb, Slot: a.Slot, Message: message}
		longest := longestDelay
		if verdict == verdictDoubt {
			longest = longestDoubt
		}
		p.recheck(e.backoff.refused(p.of, p.owner.GetGeneration(), stepOf(a), message, longest))
		if p.refused[a.Verb] == enough {
			p.pause(a.Verb)
		}
	}
}

// pause ends the verb's turn.
func (p *pass) pause(verb podset.Verb) {
	p.recheck(p.executor.backoff.refused(p.of, p.owner.GetGeneration(), step{verb: verb}, "", longestPause))
}

func (p *pass) recheck(after time.Duration) {
	if p.outcome.RecheckAfter == 0 || after < p.outcome.RecheckAfter {
		p.outcome.RecheckAfter = after
	}
}

func stepOf(a podset.Action) step { return step{verb: a.Verb, slot: a.Slot} }

// verdict is what an action's error means for the pass. The values are those of the metric's label.
type verdict string

const (
	verdictOK       verdict = "ok"
	verdictConflict verdict = "conflict"
	verdictGone     verdict = "gone"
	verdictRefused  verdict = "refused"
	verdictDoubt    verdict = "doubt"
)

// errBusy is an object that is there but on its way out, or in, against expectation: ordinary, and over soon.
var errBusy = errors.New("not settled yet")

func judge(err error) verdict {
	switch {
	case err == nil:
		return verdictOK
	case apierrors.IsConflict(err), errors.Is(err, errBusy):
		return verdictConflict
	case apierrors.IsNotFound(err):
		return verdictGone
	case freshness.Judge(err) == freshness.Refused:
		return verdictRefused
	default:
		return verdictDoubt
	}
}

// report emits the event of an action that is over. Ordinary outcomes have none.
func (e *Executor) report(ctx context.Context, owner client.Object, related runtime.Object, a podset.Action, err error) {
	event := a.Success
	switch judge(err) {
	case verdictOK:
	case verdictConflict, verdictGone:
		return
	default:
		if ctx.Err() != nil {
			return // The process is stopping, or the pass ran out of time; the next one will say more.
		}
		event = a.Failure
		event.Message = strings.TrimRight(event.Message, " ") + ": " + err.Error()
		event.Message = strings.Replace(event.Message, ":: ", ": ", 1)
	}
	e.emit(owner, related, string(a.Verb), event)
}

func (e *Executor) emit(owner client.Object, related runtime.Object, action string, event podset.Event) {
	if event.Reason == "" {
		return
	}
	kind := corev1.EventTypeNormal
	if event.Warning {
		kind = corev1.EventTypeWarning
	}
	e.Recorder.Eventf(owner, related, kind, event.Reason, action, "%s", oneLine(event.Message, longestNote))
}

// oneLine returns text without line breaks and with at most limit bytes.
func oneLine(text string, limit int) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= limit {
		return text
	}
	const ellipsis = "..."
	cut := limit - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + ellipsis
}
