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
		"an expensive pass":     {5 * time.Millisecond, pausePerCost * 5 * time.Millisecond},
		"a very expensive pass": {maxPause / restPerCost, maxPause},
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
			if got := p.WaitFor(now, 2); got != restPerCost*tc.cost {
				t.Errorf("waits %v for a new spec, want %v", got, restPerCost*tc.cost)
			}
			if got := p.Wait(now.Add(tc.want)); got != 0 {
				t.Errorf("still waits %v", got)
			}
		})
	}
}

// A workload changed without pause, with the largest writes, occupied a worker and a
// processor all the time.
func TestNoWorkloadTakesMoreThanAFifthOfAProcessor(t *testing.T) {
	const cost = 3 * time.Second
	for written, want := range map[time.Duration]time.Duration{0: 4 * cost, time.Second: 4*cost - time.Second} {
		now, p := start(), &Pace{}
		p.Passed(now, 1, cost, written)
		if p.Wait(now) != want || p.WaitFor(now, 2) != want {
			t.Errorf("after writes of %v it waits %v, and %v for a new spec, want %v", written, p.Wait(now), p.WaitFor(now, 2), want)
		}
	}
	now, p := start(), &Pace{}
	p.Passed(now, 1, time.Hour, 0)
	if got, want := p.Wait(now), restPerCost*maxCost; got != want {
		t.Errorf("after an hour without an answer of the server it waits %v, want %v", got, want)
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
