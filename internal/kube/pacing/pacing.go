// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package pacing keeps the cost of planning in proportion: while the pods of a workload change a thousand times a second, the
// workload is planned a few times a second, each time with all that happened since.
//
// After a pass that spent d of processor time on reading and deciding, the next one starts no earlier than 20 ms after its end, and no earlier than
// 48d after what it decided, so that one workload takes at most 2 % of a processor, or more once 48d exceed two seconds. While its writes
// are carried out that time passes as well: where they take longer, the next writes follow at once. A cost is taken to be at most a quarter higher
// than that of the pass before: one slow pass changes little, and a workload that has grown is noticed within a few. A workload at rest is
// planned at the first event; a changed spec is not held.
//
// A pass may take seconds where a user has written as much as may be written. Then the next one starts no earlier than 4d after its end, whatever happens
// and is changed: no workload takes more than a fifth of a processor.
//
// Waiting is of no use once nothing happens any more: the last pods of a rollout would only be counted late. So a workload is planned as soon as
// 4d have passed since the last event about it, and may take a fifth of a processor while such events come one by one.
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
	// quietPerCost is how long no event must come for the next pass to start before the pause is over, as a multiple of the cost of the last pass.
	quietPerCost = 4
	// maxPause is the longest pause, but for passes that cost more than a quarter of it.
	maxPause = 2 * time.Second
)

// Pace says when one workload may be planned next. The zero value holds nothing back. Wait, Event and Schedule may be called at any time;
// everything else is for the one worker that has the workload.
type Pace struct {
	// next is the earliest time of the next pass while events come, in nanoseconds since the epoch; zero before the first pass.
	next atomic.Int64
	// event is when the last event came that no pass has seen, ended when the last pass was over, both as next is; zero when there is none.
	event, ended atomic.Int64
	// quiet is how long after the later of both the next pass may start, in nanoseconds; zero when only next counts.
	quiet atomic.Int64
	// scheduled is when the next look at the workload is due, as next is; zero when there is none.
	scheduled atomic.Int64
	// generation is that of the spec planned last.
	generation int64
	// held is until when no pass may start, whatever the spec is; zero when a changed one is planned at once.
	held time.Time
	// cost is what the last pass is taken to have cost.
	cost time.Duration
	// known says that the workload was held back before.
	known bool
}

// Wait is how long the workload may not be planned yet, whatever its spec.
func (p *Pace) Wait(now time.Time) time.Duration {
	next := p.next.Load()
	if next == 0 {
		return 0
	}
	if event, quiet := p.event.Load(), p.quiet.Load(); event > 0 && quiet > 0 {
		next = min(next, max(event, p.ended.Load())+quiet)
	}
	return max(time.Unix(0, next).Sub(now), 0)
}

// Event notes that something has happened that the workload should be planned for, and returns Wait. What the operator has written itself is
// nothing to be planned for.
func (p *Pace) Event(now time.Time) time.Duration {
	p.event.Store(now.UnixNano())
	return p.Wait(now)
}

// WaitFor is Wait, but for a generation that was not planned yet zero, unless passes cost very much.
func (p *Pace) WaitFor(now time.Time, generation int64) time.Duration {
	if p.generation != generation {
		return max(p.held.Sub(now), 0)
	}
	return p.Wait(now)
}

// Passed notes the end of a pass over the given generation that spent cost on reading and deciding, and the rest of its time, written, on
// carrying out what it decided.
func (p *Pace) Passed(now time.Time, generation int64, cost, written time.Duration) {
	if p.known {
		cost = min(cost, max(p.cost+p.cost/4, minPause/pausePerCost))
	}
	pause, quiet := min(max(minPause, pausePerCost*cost-written), maxPause), max(minPause, quietPerCost*cost)
	p.generation, p.cost, p.known, p.held = generation, cost, true, time.Time{}
	if quiet > maxPause {
		pause = max(pause, quiet-max(written, 0))
		p.held = now.Add(pause)
	}
	p.next.Store(now.Add(pause).UnixNano())
	p.ended.Store(now.UnixNano())
	p.quiet.Store(int64(quiet))
}

// Schedule notes that somebody will look at the workload after wait. It returns false when somebody does earlier anyhow: a thousand events
// within one pause need one look.
func (p *Pace) Schedule(now time.Time, wait time.Duration) bool {
	due, scheduled := now.Add(wait).UnixNano(), p.scheduled.Load()
	if now.UnixNano() <= scheduled && scheduled <= due {
		return false
	}
	p.scheduled.Store(due)
	return true
}

// Looks notes that somebody looks at the workload now. It has to be called before anything is read: what happens from now on needs another look.
func (p *Pace) Looks() { p.scheduled.Store(0) }

// Begins notes that a pass begins, which will see all events until now.
func (p *Pace) Begins() { p.event.Store(0) }

// Incomplete notes that the workload could not be planned, since its view lacks some write. The events that bring these come one after the
// other, and the workload is not looked at for each. It returns when to try again.
func (p *Pace) Incomplete(now time.Time, generation int64) time.Duration {
	p.generation, p.known = generation, true
	p.next.Store(now.Add(minPause).UnixNano())
	p.quiet.Store(0)
	return minPause
}
