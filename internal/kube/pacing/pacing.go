// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package pacing keeps the cost of planning in proportion: while the pods of a workload change a thousand times a second, the
// workload is planned a few times a second, each time with all that happened since.
//
// After a pass that spent d on looking and deciding, the next one starts no earlier than max(20 ms, 8d) after its end, so that
// one workload takes at most a ninth of a processor. What a pass spent is measured by the clock on the wall, and on a machine that is
// busy with other things most of it is waiting for a processor. A cost is therefore taken to be at most a quarter higher than that of the
// pass before: one slow pass changes little, and a workload that has grown is noticed within a few. A workload at rest is planned at the
// first event; a changed spec is never held.
package pacing

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// shortest is the least time between two passes.
	shortest = 20 * time.Millisecond
	// share is how many times the cost of a pass the time after it is.
	share = 8
	// longest bounds the time between two passes.
	longest = 2 * time.Second
)

// Pacer remembers when each workload may be planned next. It is safe for concurrent use.
type Pacer struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	next map[types.NamespacedName]turn
}

type turn struct {
	// at is the earliest time of the next pass.
	at time.Time
	// generation is that of the spec planned last.
	generation int64
	// cost is what the last pass is taken to have cost.
	cost time.Duration
}

// New returns a Pacer. A nil clock is the real one.
func New(c clock.PassiveClock) *Pacer {
	if c == nil {
		c = clock.RealClock{}
	}
	return &Pacer{clock: c, next: map[types.NamespacedName]turn{}}
}

// Wait is how long the workload has yet to wait for its turn, whatever its spec.
func (p *Pacer) Wait(name types.NamespacedName) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.next[name].at.Sub(p.clock.Now()), 0)
}

// WaitFor is Wait, but zero for a generation that was not planned yet.
func (p *Pacer) WaitFor(name types.NamespacedName, generation int64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.next[name]
	if t.generation != generation {
		return 0
	}
	return max(t.at.Sub(p.clock.Now()), 0)
}

// Passed notes the end of a pass over the given generation that spent cost on looking and deciding, waiting for writes not counted.
func (p *Pacer) Passed(name types.NamespacedName, generation int64, cost time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, known := p.next[name]; known {
		cost = min(cost, max(last.cost+last.cost/4, shortest/share))
	}
	pause := min(max(shortest, share*cost), longest)
	p.next[name] = turn{at: p.clock.Now().Add(pause), generation: generation, cost: cost}
}

// Waits notes that a workload could not be planned yet, since its view lacks some write: of the events that bring these, one after the other,
// not each is worth a look. It returns when the next look is.
func (p *Pacer) Waits(name types.NamespacedName, generation int64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.next[name]
	t.at, t.generation = p.clock.Now().Add(shortest), generation
	p.next[name] = t
	return shortest
}

// Forget drops what is remembered of a workload that is gone.
func (p *Pacer) Forget(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.next, name)
}
