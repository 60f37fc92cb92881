// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package recreate

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
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

// Look finds an attempt under way, or takes the error of a failed one. It knows nothing of
// other attempts, nor of successes.
func (s *Stops) Look(at Attempt) (Progress, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.look(at)
}

func (s *Stops) look(at Attempt) (Progress, error) {
	known := s.all[at]
	switch {
	case known == nil:
		return "", nil
	case known.ended.IsZero():
		return Begun, nil
	}
	delete(s.all, at)
	return Failed, known.err
}

// Try begins an attempt unless it is under way, or takes its error when it has failed. do is called in the background, and then told.
func (s *Stops) Try(at Attempt, now func() time.Time, do func() error, told func()) (Progress, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if is, err := s.look(at); is != "" {
		return is, err
	}
	young, mine := 0, 0
	for other, known := range s.all {
		switch {
		case known.ended.IsZero() && now().Sub(known.begun) < mayTake:
			young++
			if other.Namespace == at.Namespace {
				mine++
			}
		case !known.ended.IsZero() && now().Sub(known.ended) > forgotten:
			delete(s.all, other)
		}
	}
	if young >= maxStops && mine >= ownStops {
		return Waits, nil
	}
	if s.all == nil {
		s.all = map[Attempt]*stop{}
	}
	this := &stop{begun: now()}
	s.all[at] = this
	s.running.Go(func() {
		err := do()
		s.mutex.Lock()
		if this.ended, this.err = now(), err; err == nil {
			delete(s.all, at)
		}
		s.mutex.Unlock()
		told()
	})
	return Begun, nil
}
