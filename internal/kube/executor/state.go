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
	// longestDoubt bounds the delay of actions not refused, or only for too many requests
	// or an unrecognized operator: the trouble lay with the server or the way to it, and
	// may end at any time. The step's pause spares such a server.
	longestDoubt = 8 * time.Second
	// longestTaken bounds the delay while an object of somebody else has the name: nothing tells when it goes.
	longestTaken = 2 * time.Minute
	// longestPause bounds an owner's wait after all actions of a step were refused in a
	// namespace.
	longestPause = time.Minute
	// steady is how long a slot's objects must last without failing for the next failure to be the first again.
	steady = 10 * time.Minute
	// failuresInARow is how many objects of a slot have to fail one after the other before the slot is reported as failing.
	failuresInARow = 3
	// windowLasts is how long a window holds; an older namespace starts slowly again.
	// maxWindows are remembered.
	windowLasts = 10 * time.Second
	maxWindows  = 4096
)

const (
	// afterRefusal is when to plan again after a refusal, for others that may get its
	// place. It is less than the shortest delay.
	afterRefusal = firstDelay / 2
	// maxYielding is how many refused actions of a step leave their place to others in a namespace. Where more are refused, most likely all are, as by a
	// quota: each further one would only add tries of its own.
	maxYielding = 10
)

// State is an owner's memory between plans: its failures. The zero State is empty, and
// losing it costs only time. It belongs to the goroutine applying the owner's plan.
type State struct {
	// generation is the refusals' spec.
	generation int64
	// refused are the failed actions by identity; without a name, a whole step in a
	// namespace.
	refused map[planning.RetryKey]retry
	// replaced are slots with a failed object deleted for a replacement.
	replaced map[planning.Slot]replacement
}

// retry is when something may be tried again.
type retry struct {
	// count is how often in a row it failed.
	count int
	until time.Time
	// doubt is true if the last try may have taken effect.
	doubt bool
	// taken: an object of somebody else had the name.
	taken bool
	// message is the last error.
	message string
	// since is when the first of them failed.
	since time.Time
}

// replacement counts a slot's failed objects replaced in a row, and how long the next
// failed one stays.
type replacement struct {
	count int
	until time.Time
	// madeFrom is these objects' source.
	madeFrom string
}

// delay is the one after so many failures in a row: it doubles from firstDelay to longest.
func delay(failures int, longest time.Duration) time.Duration {
	return min(firstDelay<<min(failures-1, 16), longest)
}

// begin forgets all refusals of another spec: its user may have repaired it, and waits.
// Failing objects depend on a part of the spec only: an autoscaler's change of replicas
// every minute does not repair them.
func (s *State) begin(generation int64) {
	if s.generation != generation {
		s.generation, s.refused = generation, nil
	}
}

// wait is how long an action has yet to wait for its next try.
func (s *State) wait(key planning.RetryKey, now time.Time) time.Duration {
	return max(s.refused[key].until.Sub(now), 0)
}

// Retries returns the owner's actions whose last try failed. generation is the spec's. An
// action in doubt keeps its place: the request may still take effect after another action
// got the place.
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

// stepOf is the memory of all the step's actions in the namespace.
func stepOf(key planning.RetryKey) planning.RetryKey {
	return planning.RetryKey{Step: key.Step, Namespace: key.Namespace}
}

// refuse lengthens the delay of an action and returns it. last says how the last try failed.
func (s *State) refuse(key planning.RetryKey, last retry, longest time.Duration, now time.Time) time.Duration {
	before := s.refused[key]
	last.count, last.since = before.count+1, before.since
	if last.count == 1 {
		last.since = now
	}
	wait := delay(last.count, longest)
	last.until = now.Add(wait)
	lazy.Put(&s.refused, key, last)
	return wait
}

// keepFor forgets finished failures without an action in the plan.
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

// replacementDue is how long a slot's failed object stays for its user to look at: a node
// refusing its pods, for example, would otherwise get new ones many times a second. It
// stays no longer if its replacement has another source.
func (s *State) replacementDue(a *planning.Action, now time.Time) time.Duration {
	last := s.replaced[a.Slot]
	if last.madeFrom != a.MadeFrom {
		return 0
	}
	return max(last.until.Sub(now), 0)
}

// replace notes the replacement of a slot's object, and forgets steady slots.
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

// failing are slots replaced many times in a row, and recently.
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
