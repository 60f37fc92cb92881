// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"testing"
	"time"
)

func start() time.Time { return time.Unix(1e9, 0) }

func TestPace(t *testing.T) {
	cases := map[string]struct {
		cost, want time.Duration
	}{
		"a cheap pass":          {100 * time.Microsecond, minPause},
		"an expensive pass":     {20 * time.Millisecond, pausePerCost * 20 * time.Millisecond},
		"a very expensive pass": {maxPause / quietPerCost, maxPause},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now, p := start(), &Pace{}
			if got := p.Wait(now); got != 0 {
				t.Errorf("the first pass waits %v", got)
			}
			p.Passed(now, 1, tc.cost, 0)
			if got := p.Wait(now); got != tc.want {
				t.Errorf("waits %v, want %v", got, tc.want)
			}
			if got := p.WaitFor(now, 1); got != tc.want {
				t.Errorf("waits %v for the same spec, want %v", got, tc.want)
			}
			if got := p.WaitFor(now, 2); got != 0 {
				t.Errorf("waits %v for a new spec, want none", got)
			}
			if got := p.Wait(now.Add(tc.want)); got != 0 {
				t.Errorf("still waits %v", got)
			}
		})
	}
}

// A workload whose user writes as much as may be written, and again and again, occupied a worker and a processor all the time.
func TestNoWorkloadTakesMoreThanAFifthOfAProcessor(t *testing.T) {
	const cost = 3 * time.Second
	for written, want := range map[time.Duration]time.Duration{0: 4 * cost, time.Second: 4*cost - time.Second, time.Hour: minPause} {
		now, p := start(), &Pace{}
		p.Passed(now, 1, cost, written)
		p.Event(now)
		if got := p.Wait(now); got != want {
			t.Errorf("after writes of %v it waits %v, want %v", written, got, want)
		}
		if got := p.WaitFor(now, 2); got != want {
			t.Errorf("after writes of %v it waits %v for a new spec, want %v", written, got, want)
		}
		p.Passed(now, 2, time.Millisecond, 0)
		if got := p.WaitFor(now, 3); got != 0 {
			t.Errorf("after a cheap pass it waits %v for a new spec, want none", got)
		}
	}
}

func TestOneSlowPassChangesLittle(t *testing.T) {
	now, p := start(), &Pace{}
	p.Passed(now, 1, 4*time.Millisecond, 0)
	p.Passed(now, 1, 100*time.Millisecond, 0)
	if got, want := p.Wait(now), pausePerCost*5*time.Millisecond; got != want {
		t.Errorf("waits %v after a slow pass, want %v", got, want)
	}
	p.Passed(now, 1, 4*time.Millisecond, 0)
	if got, want := p.Wait(now), pausePerCost*4*time.Millisecond; got != want {
		t.Errorf("waits %v afterwards, want %v", got, want)
	}
	for range 30 {
		p.Passed(now, 1, 30*time.Millisecond, 0)
	}
	if got, want := p.Wait(now), pausePerCost*30*time.Millisecond; got != want {
		t.Errorf("waits %v once all passes are slow, want %v", got, want)
	}
}

func TestAWorkloadThatLacksAWriteIsTriedAgainSoon(t *testing.T) {
	now, p := start(), &Pace{}
	p.Passed(now, 1, 10*time.Millisecond, 0)
	now = now.Add(time.Minute)
	if got := p.Incomplete(now, 1); got != minPause || p.Wait(now) != minPause || p.WaitFor(now, 1) != minPause {
		t.Errorf("tried again after %v, waits %v, want %v", got, p.Wait(now), minPause)
	}
	if got := p.WaitFor(now, 2); got != 0 {
		t.Errorf("waits %v for a new spec, want none", got)
	}
	// The cost of its passes is still known.
	now = now.Add(minPause)
	p.Passed(now, 1, time.Second, 0)
	if got, want := p.Wait(now), pausePerCost*10*time.Millisecond*5/4; got != want {
		t.Errorf("waits %v after the next pass, want %v", got, want)
	}
}

// Writers would run dry if the pause began only when the last of them is done.
func TestTheTimeOfTheWritesCountsForThePause(t *testing.T) {
	for written, want := range map[time.Duration]time.Duration{
		0:                      pausePerCost * 10 * time.Millisecond,
		30 * time.Millisecond:  pausePerCost*10*time.Millisecond - 30*time.Millisecond,
		time.Second:            minPause,
		-20 * time.Millisecond: pausePerCost*10*time.Millisecond + 20*time.Millisecond, // a clock that went back
	} {
		now, p := start(), &Pace{}
		p.Passed(now, 1, 10*time.Millisecond, written)
		if got := p.Wait(now); got != want {
			t.Errorf("after writes of %v it waits %v, want %v", written, got, want)
		}
	}
}

// The last pods of a rollout would only be counted when the pause is over, although nothing more comes.
func TestAWorkloadIsPlannedSoonAfterItsLastEvent(t *testing.T) {
	const cost = 30 * time.Millisecond
	now, p := start(), &Pace{}
	after := func(d time.Duration) time.Time { return now.Add(d) }
	p.Passed(now, 1, cost, 0)
	if got, want := p.Event(after(10*time.Millisecond)), quietPerCost*cost; got != want {
		t.Errorf("after an event it waits %v, want %v", got, want)
	}
	if got, want := p.Event(after(100*time.Millisecond)), quietPerCost*cost; got != want {
		t.Errorf("after another one it waits %v, want %v", got, want)
	}
	if got, want := p.Event(after(pausePerCost*cost-cost)), cost; got != want {
		t.Errorf("while events come, it waits %v until the pause is over, want %v", got, want)
	}
	p.Begins()
	p.Event(after(pausePerCost*cost + cost)) // while the pass reads and writes
	now = after(pausePerCost*cost + 2*cost)
	p.Passed(now, 1, cost, 0)
	if got, want := p.Wait(now), quietPerCost*cost; got != want {
		t.Errorf("after an event during the pass it waits %v, want %v", got, want)
	}
	p.Begins()
	p.Passed(now, 1, cost, 0)
	if got, want := p.Wait(now), pausePerCost*cost; got != want {
		t.Errorf("without an event it waits %v, want %v", got, want)
	}
}

func TestThousandEventsWithinAPauseNeedOneLook(t *testing.T) {
	now, p := start(), &Pace{}
	p.Passed(now, 1, 10*time.Millisecond, 0)
	schedule := func(at time.Duration) bool {
		return p.Schedule(now.Add(at), p.Event(now.Add(at)))
	}
	for at, want := range []bool{true, false, false} {
		if got := schedule(time.Duration(at) * time.Millisecond); got != want {
			t.Errorf("event %d is scheduled: %v, want %v", at, got, want)
		}
	}
	if !p.Schedule(now.Add(3*time.Millisecond), time.Millisecond) {
		t.Error("a look that is due earlier is not scheduled")
	}
	p.Looks()
	if !schedule(5 * time.Millisecond) {
		t.Error("what happens after a look is not looked at")
	}
	if !schedule(time.Hour) {
		t.Error("a look that never came holds back others for ever")
	}
}
