// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package recorder evens out events. client-go sends every event at once and drops what exceeds its queue of a thousand, so that the
// start of a large workload would compete with its own events for the API server, and lose some of them.
//
// Warnings go out at once. Other events do too while those of an object are few; beyond that they wait their turn, and are stamped when they
// go out: a minute and a half later for the last of a thousand pods. What still waits when the process ends is lost.
package recorder

import (
	"context"
	"maps"
	"sync"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ref "k8s.io/client-go/tools/reference"

	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
)

const (
	// An object's first events go out at once, and one more for each second that has passed since: what a person watches is told as it
	// happens. An event costs the API server about as much as the write it tells of, so the rest of a thousand waits its turn.
	objectBurst     = 25
	objectPerSecond = 1
	// All objects together send this many at once, and so many a second, for the same reason when hundreds of sets start.
	burst     = 100
	perSecond = 10
	// waitingPerSecond is how many of those that wait go out each second.
	waitingPerSecond = 10
	// waiting is how many events may wait; more are dropped and counted.
	waiting = 20000
	// remembered is how many objects are remembered before those with nothing to remember are forgotten.
	remembered = 4096
)

// Recorder evens out the events that go to another recorder. It sends those that wait while Start runs.
type Recorder struct {
	next    events.EventRecorder
	metrics *metrics.Metrics
	queue   chan event
	// all limits what goes out at once, rest what has waited.
	all, rest *rate.Limiter

	mu      sync.Mutex
	objects map[types.UID]*rate.Limiter
}

type event struct {
	regarding, related                runtime.Object
	eventtype, reason, action, format string
	args                              []any
}

// New returns a Recorder in front of next.
func New(next events.EventRecorder, m *metrics.Metrics) *Recorder {
	return &Recorder{
		next: next, metrics: m, queue: make(chan event, waiting),
		all: rate.NewLimiter(perSecond, burst), rest: rate.NewLimiter(waitingPerSecond, 1),
		objects: map[types.UID]*rate.Limiter{},
	}
}

// Eventf implements events.EventRecorder. It never waits.
func (r *Recorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, format string, args ...any) {
	e := event{regarding, related, eventtype, reason, action, format, args}
	if eventtype == corev1.EventTypeWarning || r.limiter(regarding).Allow() && r.all.Allow() {
		r.send(e)
		return
	}
	e.regarding, e.related = reference(regarding), reference(related)
	select {
	case r.queue <- e:
	default:
		r.metrics.DroppedEvents.Inc()
	}
}

// limiter is that of one object.
func (r *Recorder) limiter(object runtime.Object) *rate.Limiter {
	var uid types.UID
	if accessor, err := meta.Accessor(object); err == nil {
		uid = accessor.GetUID()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.objects[uid]
	if l == nil {
		if len(r.objects) >= remembered {
			maps.DeleteFunc(r.objects, func(_ types.UID, l *rate.Limiter) bool { return l.Tokens() >= objectBurst })
		}
		l = rate.NewLimiter(objectPerSecond, objectBurst)
		r.objects[uid] = l
	}
	return l
}

// reference is what an event needs of an object, so that a thousand that wait do not hold a thousand pods.
func reference(object runtime.Object) runtime.Object {
	if object == nil {
		return nil
	}
	if ref, err := ref.GetReference(scheme.Scheme, object); err == nil {
		return ref
	}
	return object // it is not known here, but may be to the recorder behind
}

// Start sends waiting events until ctx is done.
func (r *Recorder) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-r.queue:
			if err := r.rest.Wait(ctx); err != nil {
				return nil //nolint:nilerr // the process is stopping
			}
			r.send(e)
		}
	}
}

func (r *Recorder) send(e event) {
	r.next.Eventf(e.regarding, e.related, e.eventtype, e.reason, e.action, e.format, e.args...)
}
