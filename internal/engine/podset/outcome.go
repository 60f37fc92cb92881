// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import "time"

// Outcome says what became of a Plan, for the status of the workload.
type Outcome struct {
	// Done is how many actions were carried out.
	Done int
	// Left is how many actions were not begun: the time of the pass was over.
	Left int
	// Failures are the actions of the plan that were refused, now or the last time they were tried, in the order of the plan.
	// Conflicts, and objects that are gone, are not failures.
	Failures []Failure
	// RecheckAfter is when to plan again for the sake of what was left or refused. Zero: only an event can change the answer.
	RecheckAfter time.Duration
}

// Failure is an action that was refused.
type Failure struct {
	Verb Verb
	Slot Slot
	// Message is the error in one line; it stays the same while the action waits for its next try.
	Message string
}

// Failed returns the first failure of the given verbs, if there is one.
func (o Outcome) Failed(verbs ...Verb) (Failure, bool) {
	for _, failure := range o.Failures {
		for _, verb := range verbs {
			if failure.Verb == verb {
				return failure, true
			}
		}
	}
	return Failure{}, false
}
