// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package pacing keeps planning cheap: while a workload's pods change a thousand times a
// second, it is planned a few times a second, each time with all changes since.
//
// After a pass with d of reading and deciding, the next starts at least 20 ms after its
// end, and 48d, at most half a second, after its decision. Writing counts towards this
// time. A workload at rest is planned at the first event; a changed spec is planned 4d
// after the last pass. No workload takes more than a fifth of a processor, whatever its
// user writes.
package pacing

import (
	"sync/atomic"
	"time"
)

const (
	// minPause is the least time between the end of a pass and the next one.
	minPause = 20 * time.Millisecond
	// pausePerCost is how long the pause after a pass is, as a multiple of its cost.
	pausePerCost = 48
	// restPerCost is the same for a changed spec, and for passes too costly for maxPause.
	restPerCost = 4
	// maxPause is the longest pause, but for the rest.
	maxPause = 500 * time.Millisecond
	// maxCost is how much of a cost counts: a pass may have waited for the API server.
	maxCost = 5 * time.Second
)

// Pace tells when a workload may be planned next. The zero value holds nothing back. Wait
// may be called at any time; the rest only by the workload's worker.
type Pace struct {
	// next is the earliest time of the next pass, in nanoseconds since the epoch; zero before the first pass.
	next atomic.Int64
	// rested is the same for a changed spec.
	rested time.Time
	// generation is the last planned spec's.
	generation int64
}

// Wait is how long the workload may not be planned yet, while its spec stays.
func (p *Pace) Wait(now time.Time) time.Duration {
	return max(time.Unix(0, p.next.Load()).Sub(now), 0)
}

// WaitFor is Wait, but shorter for a new generation.
func (p *Pace) WaitFor(now time.Time, generation int64) time.Duration {
	if p.generation != generation {
		return max(p.rested.Sub(now), 0)
	}
	return p.Wait(now)
}

// Passed notes the end of a pass over the generation: cost was spent on reading and
// deciding, written on writing.
func (p *Pace) Passed(now time.Time, generation int64, cost, written time.Duration) {
	cost = min(cost, maxCost)
	rest := restPerCost*cost - max(written, 0)
	p.generation, p.rested = generation, now.Add(rest)
	p.next.Store(now.Add(max(minPause, min(pausePerCost*cost-written, maxPause), rest)).UnixNano())
}

// Incomplete notes a workload not planned because its view lacks some write. Their events
// come one by one, and the workload is not looked at for each. It returns when to try
// again.
func (p *Pace) Incomplete(now time.Time, generation int64) time.Duration {
	p.generation = generation
	p.next.Store(now.Add(minPause).UnixNano())
	return minPause
}
