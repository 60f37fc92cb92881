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

const (
	// firstDelay, doubled with every refusal in a row up to longestDelay, is how long a refused step waits for its next try.
	firstDelay   = time.Second
	longestDelay = 15 * time.Minute
	// longestDoubt bounds it for a step that was not refused: the server or the way to it was in trouble, which tells nothing about
	// the step and may be over at any time. The pause of the whole verb spares a server that stays in trouble.
	longestDoubt = 8 * time.Second
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
	uid types.UID
	// generation is that of the spec whose steps were refused.
	generation int64
	steps      map[step]refusal
}

type refusal struct {
	count   int
	until   time.Time
	message string
}

// of returns what is remembered of a step and how long it has yet to wait.
func (b *backoff) of(owner freshness.Owner, s step) (last refusal, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.owners[owner.NamespacedName]
	if !ok || r.uid != owner.UID {
		return refusal{}, 0
	}
	last = r.steps[s]
	return last, max(last.until.Sub(b.clock.Now()), 0)
}

// begin forgets all refusals when the owner's spec is another one than theirs: its user may have repaired what was refused, and
// waits for it now.
func (b *backoff) begin(owner freshness.Owner, generation int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.owners[owner.NamespacedName]
	if ok && (r.uid != owner.UID || r.generation != generation) {
		delete(b.owners, owner.NamespacedName)
	}
}

// refused lengthens the step's delay and returns it.
func (b *backoff) refused(owner freshness.Owner, generation int64, s step, message string, longest time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.owners[owner.NamespacedName]
	if !ok || r.uid != owner.UID {
		r = &refusals{uid: owner.UID, generation: generation, steps: map[step]refusal{}}
		b.owners[owner.NamespacedName] = r
	}
	last := r.steps[s]
	delay := min(firstDelay<<min(last.count, 16), longest)
	r.steps[s] = refusal{count: last.count + 1, until: b.clock.Now().Add(delay), message: message}
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

// keep forgets refusals that are over and whose step the present plan does not ask for.
func (b *backoff) keep(owner types.NamespacedName, actions []podset.Action) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.owners[owner]
	if !ok {
		return
	}
	asked := make(map[step]bool, len(actions))
	for _, a := range actions {
		asked[stepOf(a)] = true
	}
	for s := range r.steps {
		if s.slot != "" && !asked[s] && !r.steps[s].until.After(b.clock.Now()) {
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
