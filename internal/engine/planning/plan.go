// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package planning

import (
	"slices"
	"strings"
	"time"
)

// Plan is what to do now, why, and when time alone could change the answer.
type Plan struct {
	// Actions are independent of each other and in order of urgency: what is first is begun first.
	Actions []Action
	// Held says what was held back, and by which limit.
	Held []Note
	// Aside are the keys of actions that are not carried out, see SetAside.
	Aside map[RetryKey]bool
	// RecheckAfter is when to plan again even if nothing happens. Zero: only an event can change the answer.
	RecheckAfter time.Duration
}

// Note says what was held back and why, for conditions, logs and golden files.
type Note struct {
	// Reason is a CamelCase word such as MaxUnavailable, Partition, Paused, Hook, GracePeriod, ScaleMaxUnavailable, PodNotReady.
	Reason string
	// Message is one sentence with the next place to look; stable while nothing changes.
	Message string
	// Slots are those concerned, sorted.
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
	if len(messages) == 0 {
		return otherwise
	}
	return strings.Join(messages, "; ")
}

// Outcome says what became of a Plan, for the status of its owner.
type Outcome struct {
	// Done is how many actions were carried out, Steps how many of each step.
	Done  int
	Steps map[Step]int
	// Left are the actions that were not begun, as indexes: there was no time for them, or they have to wait.
	Left []int
	// Failures are the actions of the plan that were refused, now or the last time they were tried, in the order of the plan.
	// Conflicts, and objects that are gone, are not failures.
	Failures []Failure
	// Failing are the slots whose object was replaced several times in a row because it had failed, sorted.
	Failing []FailingSlot
	// RecheckAfter is when to plan again for the sake of what was left or refused. Zero: only an event can change the answer.
	RecheckAfter time.Duration
}

// FailingSlot is a slot whose objects fail again and again.
type FailingSlot struct {
	Slot Slot
	// MadeFrom is what they are made from; see [Action].
	MadeFrom string
}

// Failure is an action that was refused.
type Failure struct {
	Step Step
	Slot Slot
	// Refused says that the server refused it just now. It is false when the action waits for its next try after a refusal, or its outcome is in doubt.
	Refused bool
	// Message is the error in one line; it stays the same while the action waits for its next try.
	Message string
	// Since is when the first of the tries in a row that have failed was made, as far as this process knows.
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
