// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"cmp"
	"slices"
	"time"

	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

const (
	// firstDelay, doubled with every refusal in a row up to longestDelay, is how long a refused action waits for its next try.
	firstDelay   = time.Second
	longestDelay = 15 * time.Minute
	// longestDoubt bounds it for an action that was not refused, or only because there were too many requests or the operator was not recognized:
	// the server or the way to it was in trouble, which says nothing about the action and may be over at any time. The pause of the whole step spares a server that stays in trouble.
	longestDoubt = 8 * time.Second
	// longestPause bounds how long an owner waits whose actions of one step were all refused in a namespace.
	longestPause = time.Minute
	// steady is how long a slot's objects must last without failing for the next failure to be the first again.
	steady = 10 * time.Minute
	// failuresInARow is how many objects of a slot have to fail one after the other before the slot is reported as failing.
	failuresInARow = 3
	// windowLasts is for how long a window holds: a namespace that nobody wrote to for longer starts slowly again. maxWindows are remembered.
	windowLasts = 10 * time.Second
	maxWindows  = 4096
)

const (
	// afterRefusal is when to plan again after an action was refused and others wait, which may get its place. It is less than its shortest delay.
	afterRefusal = firstDelay / 2
	// maxYielding is how many refused actions of a step leave their place to others in a namespace. Where more are refused, most likely all are, as by a
	// quota: each further one would only add tries of its own.
	maxYielding = 10
)

// State is what is remembered of one owner between its plans: what failed. The zero State knows nothing, and losing it costs time only. It belongs to
// the goroutine that applies the owner's plan.
type State struct {
	// generation is that of the spec that the refusals belong to.
	generation int64
	// refused are the actions that failed, by what they are; without a name it is a whole step in a namespace.
	refused map[planning.RetryKey]retry
	// replaced are the slots whose object had failed and was deleted so that another one takes its place.
	replaced map[planning.Slot]replacement
}

// retry is when something may be tried again.
type retry struct {
	// count is how often in a row it failed.
	count int
	until time.Time
	// doubt says that the last one may have happened all the same.
	doubt bool
	// message is the last error.
	message string
	// since is when the first of them failed.
	since time.Time
}

// replacement is how often in a row the object of a slot was replaced because it had failed, and until when the next one that fails stays.
type replacement struct {
	count int
	until time.Time
	// madeFrom is what these objects were made from.
	madeFrom string
}

// delay is the one after so many failures in a row: it doubles from firstDelay to longest.
func delay(failures int, longest time.Duration) time.Duration {
	return min(firstDelay<<min(failures-1, 16), longest)
}

// begin forgets all refusals when the owner's spec is another one than theirs: its user may have repaired what was refused, and
// waits for it now. What failing objects are made from is a part of the spec only, and says itself when it is another one: an autoscaler, which
// changes the number of objects every minute, does not repair them.
func (s *State) begin(generation int64) {
	if s.generation != generation {
		s.generation, s.refused = generation, nil
	}
}

// wait is how long an action has yet to wait for its next try.
func (s *State) wait(key planning.RetryKey, now time.Time) time.Duration {
	return max(s.refused[key].until.Sub(now), 0)
}

// Retries says which actions of an owner failed at their last try. generation is that of its spec. One whose outcome is in doubt keeps its place: the
// request may still be under way, and take effect after another action has got that place.
func (s *State) Retries(generation int64, now time.Time) planning.Retries {
	if s.generation != generation || len(s.refused) == 0 {
		return nil
	}
	steps := map[planning.RetryKey][]planning.RetryKey{}
	keeps := map[planning.RetryKey]bool{}
	for key, last := range s.refused {
		switch step := stepOf(key); {
		case key == step:
		case last.doubt:
			keeps[key] = true
		default:
			steps[step] = append(steps[step], key)
		}
	}
	for _, keys := range steps {
		if len(keys) <= maxYielding {
			continue
		}
		slices.SortFunc(keys, func(a, b planning.RetryKey) int {
			return cmp.Or(s.refused[a].since.Compare(s.refused[b].since), cmp.Compare(a.Name, b.Name))
		})
		for _, key := range keys[maxYielding:] {
			keeps[key] = true
		}
	}
	return func(key planning.RetryKey) (planning.Retry, bool) {
		last, failed := s.refused[key]
		if !failed {
			return planning.Retry{}, false
		}
		return planning.Retry{Wait: s.wait(key, now), Keeps: keeps[key], Failing: now.Sub(last.since)}, true
	}
}

// stepOf is what is remembered of all actions of the step in the namespace.
func stepOf(key planning.RetryKey) planning.RetryKey {
	return planning.RetryKey{Step: key.Step, Namespace: key.Namespace}
}

// refuse lengthens the delay of an action and returns it.
func (s *State) refuse(key planning.RetryKey, message string, doubt bool, longest time.Duration, now time.Time) time.Duration {
	last := s.refused[key]
	last.doubt = doubt
	if last.count++; last.count == 1 {
		last.since = now
	}
	wait := delay(last.count, longest)
	last.until, last.message = now.Add(wait), message
	lazy.Put(&s.refused, key, last)
	return wait
}

// keepFor forgets failures that are over and whose action the plan does not ask for any more.
func (s *State) keepFor(actions []planning.Action, now time.Time) {
	if len(s.refused) == 0 {
		return
	}
	asked := make(map[planning.RetryKey]bool, len(actions))
	for i := range actions {
		asked[actions[i].RetryKey()] = true
	}
	for key, last := range s.refused {
		if key.Name != "" && !asked[key] && !last.until.After(now) {
			delete(s.refused, key)
		}
	}
}

// replacementDue is how long the failed object of a slot stays, for its user to look at: a node that refuses its pods, for example, would
// otherwise be sent new ones many times a second. It stays no longer when the one that replaces it is made from something else.
func (s *State) replacementDue(a *planning.Action, now time.Time) time.Duration {
	last := s.replaced[a.Slot]
	if last.madeFrom != a.MadeFrom {
		return 0
	}
	return max(last.until.Sub(now), 0)
}

// replace notes that the object of a slot was replaced, and forgets slots that have been steady.
func (s *State) replace(a *planning.Action, now time.Time) {
	for other, last := range s.replaced {
		if now.Sub(last.until) > steady {
			delete(s.replaced, other)
		}
	}
	count := 1
	if last := s.replaced[a.Slot]; last.madeFrom == a.MadeFrom {
		count += last.count
	}
	lazy.Put(&s.replaced, a.Slot, replacement{count: count, until: now.Add(delay(count, longestDelay)), madeFrom: a.MadeFrom})
}

// failing are the slots whose objects were replaced many times in a row, and the last time not long ago.
func (s *State) failing(now time.Time) []planning.FailingSlot {
	var slots []planning.FailingSlot
	for slot, last := range s.replaced {
		if last.count >= failuresInARow && now.Sub(last.until) <= steady {
			slots = append(slots, planning.FailingSlot{Slot: slot, MadeFrom: last.madeFrom})
		}
	}
	slices.SortFunc(slots, func(a, b planning.FailingSlot) int { return cmp.Compare(a.Slot, b.Slot) })
	return slots
}
