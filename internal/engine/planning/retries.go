// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package planning

import "time"

// Retry is what is known of an action that failed at its last try.
type Retry struct {
	// Wait is how long it waits for its next try; zero when that is due.
	Wait time.Duration
	// Keeps says that it keeps its place while it waits.
	Keeps bool
	// Failing is for how long all of its tries have failed.
	Failing time.Duration
}

// Retries says which actions failed at their last try, by their keys. A key without a name is that of a whole step in a namespace: it has paused, and nothing
// of it has succeeded since. Nil: none did.
type Retries func(key RetryKey) (retry Retry, failed bool)

// Yields says that the action with this key was refused and leaves its place under a limit to others, because it waits for its next try or there is no
// room. Otherwise the others would never get their turn when the server refuses the same action for ever. An action that yields stays in the plan, so that
// its refusal is still reported and remembered, but it is not carried out.
func (p *Plan) Yields(retries Retries, key RetryKey, room bool) bool {
	if p.Yielding[key] {
		return true
	}
	if retries == nil {
		return false
	}
	retry, failed := retries(key)
	if !failed || room && (retry.Keeps || retry.Wait <= 0) {
		return false
	}
	if p.Yielding == nil {
		p.Yielding = map[RetryKey]bool{}
	}
	p.Yielding[key] = true
	return true
}
