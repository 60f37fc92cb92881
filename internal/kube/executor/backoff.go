// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

const (
	// firstDelay, doubled with every refusal in a row up to longestDelay, is how long a refused step waits for its next try.
	firstDelay   = time.Second
	longestDelay = 15 * time.Minute
	// longestPause bounds how long a workload waits whose steps were all refused.
	longestPause = time.Minute
)

// step is what a back-off is about: one verb on one slot. The empty slot stands for the verb on all slots.
type step struct {
	verb podset.Verb
	slot podset.Slot
}

// backoff remembers refused steps, by owner.
type backoff struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	owners map[types.NamespacedName]*refusals
}

type refusals struct {
	uid   types.UID
	steps map[step]refusal
}

type refusal struct {
	count int
	until time.Time
}

// wait is how long the step has yet to wait.
func (b *backoff) wait(owner types.NamespacedName, uid types.UID, s step) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.owners[owner]
	if !ok || r.uid != uid {
		return 0
	}
	return max(r.steps[s].until.Sub(b.clock.Now()), 0)
}

// count is how often in a row the step was refused.
func (b *backoff) count(owner types.NamespacedName, uid types.UID, s step) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.owners[owner]
	if !ok || r.uid != uid {
		return 0
	}
	return r.steps[s].count
}

// refused lengthens the step's delay and returns it.
func (b *backoff) refused(owner types.NamespacedName, uid types.UID, s step, longest time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.owners[owner]
	if !ok || r.uid != uid {
		r = &refusals{uid: uid, steps: map[step]refusal{}}
		b.owners[owner] = r
	}
	last := r.steps[s]
	delay := min(firstDelay<<min(last.count, 16), longest)
	r.steps[s] = refusal{count: last.count + 1, until: b.clock.Now().Add(delay)}
	return delay
}

// succeeded forgets the step's refusals.
func (b *backoff) succeeded(owner types.NamespacedName, s step) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.owners[owner]
	if !ok {
		return
	}
	if delete(r.steps, s); len(r.steps) == 0 {
		delete(b.owners, owner)
	}
}

// keep forgets the refusals of slots that no plan asks for any more.
func (b *backoff) keep(owner types.NamespacedName, wanted func(step) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.owners[owner]
	if !ok {
		return
	}
	for s := range r.steps {
		if s.slot != "" && !wanted(s) {
			delete(r.steps, s)
		}
	}
	if len(r.steps) == 0 {
		delete(b.owners, owner)
	}
}

func (b *backoff) forget(owner types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.owners, owner)
}
