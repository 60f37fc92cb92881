// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package recreate

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// mostStops is how many containers are begun to be stopped within mayTake. One that takes longer does not count any more: it waits for its grace
	// period, which costs nothing, and must not hold up the pods of others.
	mostStops = 32
	mayTake   = 30 * time.Second
	// forgotten is when the failure of a stop is forgotten that nobody has asked for: its request is gone.
	forgotten = 10 * time.Minute
)

// attempt names the stop of one instance of a container for one request.
type attempt struct {
	request  types.UID
	instance string
}

// stop is an attempt that has begun. Ended is zero until it is over.
type stop struct {
	begun, ended time.Time
	err          error
}

// stops are the attempts that are under way, and those that have failed and whose error nobody has taken yet. They outlive the passes that begin them: a stop takes as
// long as the grace period says, and meanwhile the requests of the pod have to be looked at.
type stops struct {
	mutex sync.Mutex
	all   map[attempt]*stop
	// running ends when no attempt is under way.
	running sync.WaitGroup
}

// progress is how far an attempt is.
type progress string

const (
	// begun: it has been begun just now, or before, and is under way.
	begun progress = "begun"
	// waits: there are too many others.
	waits progress = "waits"
	// failed: it is over, and its error has been taken.
	failed progress = "failed"
)

// try begins an attempt unless it is under way, or takes its error when it has failed. do is called in the background, and then told.
func (s *stops) try(at attempt, now func() time.Time, do func() error, told func()) (progress, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if known := s.all[at]; known != nil {
		if known.ended.IsZero() {
			return begun, nil
		}
		delete(s.all, at)
		return failed, known.err
	}
	young := 0
	for other, known := range s.all {
		switch {
		case known.ended.IsZero() && now().Sub(known.begun) < mayTake:
			young++
		case !known.ended.IsZero() && now().Sub(known.ended) > forgotten:
			delete(s.all, other)
		}
	}
	if young >= mostStops {
		return waits, nil
	}
	if s.all == nil {
		s.all = map[attempt]*stop{}
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
	return begun, nil
}
