// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package recorder evens out events. client-go sends every event at once and drops what exceeds its queue of a thousand, so that the
// start of a large workload would compete with its own events for the API server, and lose some of them.
//
// Warnings go out at once. Other events do too while they are few; beyond that they wait their turn, and so are stamped up to some
// seconds late: 20 s after the start of a thousand pods. What still waits when the process ends is lost.
package recorder

import (
	"context"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
)

const (
	// perSecond is how many events go out each second, after a first burst.
	perSecond = 50
	burst     = 100
	// waiting is how many events may wait; more are dropped and counted.
	waiting = 20000
)

// Recorder evens out the events that go to another recorder. It sends those that wait while Start runs.
type Recorder struct {
	next    events.EventRecorder
	metrics *metrics.Metrics
	limiter *rate.Limiter
	queue   chan event
}

type event struct {
	regarding, related                runtime.Object
	eventtype, reason, action, format string
	args                              []any
}

// New returns a Recorder in front of next.
func New(next events.EventRecorder, m *metrics.Metrics) *Recorder {
	return &Recorder{next: next, metrics: m, limiter: rate.NewLimiter(perSecond, burst), queue: make(chan event, waiting)}
}

// Eventf implements events.EventRecorder. It never waits.
func (r *Recorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, format string, args ...any) {
	e := event{regarding, related, eventtype, reason, action, format, args}
	if eventtype == corev1.EventTypeWarning || len(r.queue) == 0 && r.limiter.Allow() {
		r.send(e)
		return
	}
	select {
	case r.queue <- e:
	default:
		r.metrics.DroppedEvents.Inc()
	}
}

// Start sends waiting events until ctx is done.
func (r *Recorder) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-r.queue:
			if err := r.limiter.Wait(ctx); err != nil {
				return nil //nolint:nilerr // the process is stopping
			}
			r.send(e)
		}
	}
}

func (r *Recorder) send(e event) {
	r.next.Eventf(e.regarding, e.related, e.eventtype, e.reason, e.action, e.format, e.args...)
}
