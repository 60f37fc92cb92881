// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package recreate

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

const (
	// maxStops limits the stops begun within mayTake. Longer ones do not count any more:
	// waiting for a grace period costs nothing, and must not hold up others' pods.
	maxStops = 32
	mayTake  = 30 * time.Second
	// ownStops of these are a namespace's in any case, so one never waits for all of
	// another.
	ownStops = 4
	// forgotten is when a failed stop is forgotten if nobody asks: its request is gone.
	forgotten = 10 * time.Minute
)

// Attempt names the stop of an instance in a namespace for one reason: the UID of the
// asking object.
type Attempt struct {
	Reason    types.UID
	Namespace string
	Instance  string
}

// stop is a begun attempt. Ended is zero until it is over.
type stop struct {
	begun, ended time.Time
	err          error
}

// Stops are the attempts under way, and failed ones with an untaken error. They outlive
// their passes: a stop takes up to the grace period, and other pods have to be looked at
// meanwhile. The zero value is ready for use.
type Stops struct {
	mutex sync.Mutex
	all   map[Attempt]*stop
	// running ends when no attempt is under way.
	running sync.WaitGroup
}

// Progress is how far an attempt is.
type Progress string

const (
	// Begun means it has begun, now or before, and is under way.
	Begun Progress = "Begun"
	// Waits means there are too many others.
	Waits Progress = "Waits"
	// Failed means it is over, and its error has been taken.
	Failed Progress = "Failed"
)

// Wait returns when no attempt is under way.
func (s *Stops) Wait() { s.running.Wait() }

// Order is what to stop, and why.
type Order struct {
	Pod  *corev1.Pod
	Kill *restart.Kill
	// Related is the request, if there is one. Why is for the event, Reason for the metric.
	Related     runtime.Object
	Why, Reason string
}

// Try begins an attempt in the background unless it is under way, or takes its error when it has failed. told hears of its end.
func (s *Stops) Try(ctx context.Context, h host.Host, at Attempt, order Order, told chan<- event.GenericEvent) (Progress, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch known := s.all[at]; {
	case known == nil:
	case known.ended.IsZero():
		return Begun, nil
	default:
		delete(s.all, at)
		return Failed, known.err
	}
	if !s.room(at.Namespace, h.Clock.Now()) {
		return Waits, nil
	}
	if s.all == nil {
		s.all = map[Attempt]*stop{}
	}
	this := &stop{begun: h.Clock.Now()}
	s.all[at] = this
	s.running.Go(func() {
		err := order.carryOut(ctx, h)
		s.mutex.Lock()
		if this.ended, this.err = h.Clock.Now(), err; err == nil {
			delete(s.all, at)
		}
		s.mutex.Unlock()
		select {
		case told <- event.GenericEvent{Object: order.Pod}:
		case <-ctx.Done():
		}
	})
	return Begun, nil
}

// room reports if one more may begin. It forgets old failures.
func (s *Stops) room(namespace string, now time.Time) bool {
	young, mine := 0, 0
	for other, known := range s.all {
		switch {
		case known.ended.IsZero() && now.Sub(known.begun) < mayTake:
			young++
			if other.Namespace == namespace {
				mine++
			}
		case !known.ended.IsZero() && now.Sub(known.ended) > forgotten:
			delete(s.all, other)
		}
	}
	return young < maxStops || mine < ownStops
}

// carryOut stops the container. One that is gone is a success.
func (o Order) carryOut(ctx context.Context, h host.Host) error {
	err := o.stop(ctx, h)
	switch {
	case errors.Is(err, cri.ErrNotFound):
		return nil
	case !errors.Is(err, cri.ErrUnavailable) && ctx.Err() == nil:
		result := "ok"
		if err != nil {
			result = "failed"
		}
		h.Metrics.Restarts.WithLabelValues(o.Reason, result).Inc()
	}
	return err
}
