// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package recreate

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxStops is how many containers are begun to be stopped within mayTake. One that takes longer does not count any more: it waits for its grace
	// period, which costs nothing, and must not hold up the pods of others.
	maxStops = 32
	mayTake  = 30 * time.Second
	// ownStops is how many of these a namespace may have in any case, so that one never waits for all of another.
	ownStops = 4
	// forgotten is when the failure of a stop is forgotten that nobody has asked for: its request is gone.
	forgotten = 10 * time.Minute
)

// Attempt names the stop of one instance of a container of a namespace for one reason: the UID of the object that asks for it.
type Attempt struct {
	Reason    types.UID
	Namespace string
	Instance  string
}

// stop is an attempt that has begun. Ended is zero until it is over.
type stop struct {
	begun, ended time.Time
	err          error
}

// Stops are the attempts that are under way, and those that have failed and whose error nobody has taken yet. They outlive the passes that begin them: a stop takes as
// long as the grace period says, and meanwhile this pod and others have to be looked at. The zero value is ready for use.
type Stops struct {
	mutex sync.Mutex
	all   map[Attempt]*stop
	// running ends when no attempt is under way.
	running sync.WaitGroup
}

// Progress is how far an attempt is.
type Progress string

const (
	// Begun says that it has been begun just now, or before, and is under way.
	Begun Progress = "Begun"
	// Waits says that there are too many others.
	Waits Progress = "Waits"
	// Failed says that it is over, and its error has been taken.
	Failed Progress = "Failed"
)

// Wait returns when no attempt is under way.
func (s *Stops) Wait() { s.running.Wait() }

// Look says whether an attempt is under way, or takes its error when it has failed. Nothing is known of others, nor of those that have succeeded.
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
