// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package planning

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
)

// Plan is what to do now, why, and when time alone could change the answer.
type Plan struct {
	// Actions are independent of each other and in order of urgency.
	Actions []Action
	// Held are the notes about limits.
	Held []Note
	// Aside are the keys of actions to skip, see SetAside.
	Aside map[RetryKey]bool
	// RecheckAfter is when to plan again even if nothing happens. Zero: only an event can change the answer.
	RecheckAfter time.Duration
}

// Note is something held back and why, for conditions, logs and golden files.
type Note struct {
	// Reason is a CamelCase word such as MaxUnavailable, Partition, Paused, Hook, GracePeriod, ScaleMaxUnavailable, PodNotReady.
	Reason string
	// Message is one sentence with the next place to look; stable while nothing changes.
	Message string
	// Slots are the concerned ones, sorted.
	Slots []Slot
}

// Recheck asks for planning again after d at the latest. Zero asks for nothing.
func (p *Plan) Recheck(d time.Duration) {
	if d > 0 && (p.RecheckAfter == 0 || d < p.RecheckAfter) {
		p.RecheckAfter = d
	}
}

// HeldFor returns the first note with one of the reasons.
func (p *Plan) HeldFor(reasons ...string) (Note, bool) {
	for _, note := range p.Held {
		if slices.Contains(reasons, note.Reason) {
			return note, true
		}
	}
	return Note{}, false
}

// HeldMessages are the first few reasons why something waits, for a condition; otherwise if nothing does.
func (p *Plan) HeldMessages(otherwise string) string {
	const most = 3
	var messages []string
	for _, note := range p.Held[:min(len(p.Held), most)] {
		messages = append(messages, note.Message)
	}
	return cmp.Or(strings.Join(messages, "; "), otherwise)
}

// Outcome is the result of a Plan, for the status of its owner.
type Outcome struct {
	// Done is how many actions were carried out, Steps how many of each step.
	Done  int
	Steps map[Step]int
	// Left are the indexes of actions not begun: there was no time for them, or they have to wait.
	Left []int
	// Failures are the plan's actions with a refusal, now or at their last try, in the order of the
	// plan. Conflicts and lost objects are not failures.
	Failures []Failure
	// Failing are the slots with several failed objects in a row, sorted.
	Failing []FailingSlot
	// RecheckAfter is when to plan the left and refused ones again. Zero: only an event can change
	// the answer.
	RecheckAfter time.Duration
}

// FailingSlot is a slot with repeated failures.
type FailingSlot struct {
	Slot Slot
	// MadeFrom is the source of its objects; see [Action].
	MadeFrom string
}

// Failure is a refused action.
type Failure struct {
	Step Step
	Slot Slot
	// Refused: the server refused it just now. False while the action waits for its next try, or
	// its outcome is in doubt.
	Refused bool
	// Taken: an object of somebody else has the name.
	Taken bool
	// Message is the error in one line; it stays the same while the action waits for its next try.
	Message string
	// Since is the first failed try in a row, as far as this process knows.
	Since time.Time
}

// Failed returns the first failure of the given steps, if there is one.
func (o Outcome) Failed(steps ...Step) (Failure, bool) {
	for _, failure := range o.Failures {
		if slices.Contains(steps, failure.Step) {
			return failure, true
		}
	}
	return Failure{}, false
}

// Retry is an action with a failed last try.
type Retry struct {
	// Wait is the time until its next try; zero when that is due.
	Wait time.Duration
	// Keeps: it keeps its place while it waits.
	Keeps bool
	// Failing is for how long all of its tries have failed.
	Failing time.Duration
}

// Retries are the actions with a failed last try, by their keys. A key without a name is a whole
// step's in a namespace: it has paused, and nothing of it has succeeded since. Nil: none did.
type Retries func(key RetryKey) (retry Retry, failed bool)

// Place says whether a limit has a place for one more action.
type Place bool

// Free is a limit with a place, Full one without.
const (
	Free Place = true
	Full Place = false
)

// SetAside sets a refused action aside while it waits for its next try, or finds its limit full,
// and says whether it did. Others take its place: a request refused for ever would keep them
// waiting. An action set aside stays in the plan, so its refusal is reported and remembered. It is
// not carried out.
func (p *Plan) SetAside(retries Retries, key RetryKey, place Place) bool {
	if p.Aside[key] {
		return true
	}
	if retries == nil {
		return false
	}
	retry, failed := retries(key)
	if !failed || bool(place) && (retry.Keeps || retry.Wait <= 0) {
		return false
	}
	lazy.Put(&p.Aside, key, true)
	return true
}
