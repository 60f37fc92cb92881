// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
)

// steady is how long a slot's pods must run without failing for the next failure to be the first again.
const steady = 10 * time.Minute

// churn slows down the replacement of pods that fail as soon as they are made: a node that refuses its pods would otherwise be sent new
// ones many times a second. Until its replacement is due, the failed pod stays, for its user to look at.
type churn struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	owners map[types.NamespacedName]*replacements
}

type replacements struct {
	uid types.UID
	// generation is that of the spec whose pods failed.
	generation int64
	slots      map[podset.Slot]replacement
}

// replacement is the last one of a slot, and how many there were in short succession.
type replacement struct {
	count int
	at    time.Time
}

// delay is how long after this replacement the next one is due.
func (r replacement) delay() time.Duration {
	return min(firstDelay<<min(r.count-1, 16), longestDelay)
}

// replaces says whether the action deletes a finished pod so that another one takes its place.
func replaces(a podset.Action) bool {
	return a.Verb == podset.VerbDelete && a.Reason == podset.ReasonFinished
}

// wait is how long the slot's pod may not be replaced yet. A changed spec is tried at once.
func (c *churn) wait(owner freshness.Owner, generation int64, slot podset.Slot) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.owners[owner.NamespacedName]
	if !ok || r.uid != owner.UID || r.generation != generation {
		return 0
	}
	last, ok := r.slots[slot]
	if !ok {
		return 0
	}
	return max(last.delay()-c.clock.Since(last.at), 0)
}

// replaced notes a replacement, and forgets slots that have been steady.
func (c *churn) replaced(owner freshness.Owner, generation int64, slot podset.Slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.owners[owner.NamespacedName]
	if !ok || r.uid != owner.UID || r.generation != generation {
		r = &replacements{uid: owner.UID, generation: generation, slots: map[podset.Slot]replacement{}}
		c.owners[owner.NamespacedName] = r
	}
	for other, last := range r.slots {
		if c.clock.Since(last.at) > last.delay()+steady {
			delete(r.slots, other)
		}
	}
	r.slots[slot] = replacement{count: r.slots[slot].count + 1, at: c.clock.Now()}
}

func (c *churn) forget(owner types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.owners, owner)
}
