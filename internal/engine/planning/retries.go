// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package planning

import "time"

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
	if p.Aside == nil {
		p.Aside = map[RetryKey]bool{}
	}
	p.Aside[key] = true
	return true
}
