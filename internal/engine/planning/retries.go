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

// Yields says that the actions with a key were refused, and take no place that a limit leaves to others: they wait for their next try, or there is no
// room. Where the server refuses the same one for ever, the others would otherwise never get their turn. An action that yields is planned all the same,
// since what is not asked for is neither told of nor remembered, and it is not carried out.
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
