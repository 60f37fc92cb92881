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
		"a cheap pass":          {100 * time.Microsecond, shortest},
		"an expensive pass":     {20 * time.Millisecond, share * 20 * time.Millisecond},
		"a very expensive pass": {time.Minute, longest},
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

func TestOneSlowPassChangesLittle(t *testing.T) {
	now, p := start(), &Pace{}
	p.Passed(now, 1, 4*time.Millisecond, 0)
	p.Passed(now, 1, 100*time.Millisecond, 0)
	if got, want := p.Wait(now), share*5*time.Millisecond; got != want {
		t.Errorf("waits %v after a slow pass, want %v", got, want)
	}
	p.Passed(now, 1, 4*time.Millisecond, 0)
	if got, want := p.Wait(now), share*4*time.Millisecond; got != want {
		t.Errorf("waits %v afterwards, want %v", got, want)
	}
	for range 30 {
		p.Passed(now, 1, 100*time.Millisecond, 0)
	}
	if got, want := p.Wait(now), share*100*time.Millisecond; got != want {
		t.Errorf("waits %v once all passes are slow, want %v", got, want)
	}
}

func TestAWorkloadThatLacksAWriteIsTriedAgainSoon(t *testing.T) {
	now, p := start(), &Pace{}
	p.Passed(now, 1, 10*time.Millisecond, 0)
	now = now.Add(time.Minute)
	if got := p.Incomplete(now, 1); got != shortest || p.Wait(now) != shortest || p.WaitFor(now, 1) != shortest {
		t.Errorf("tried again after %v, waits %v, want %v", got, p.Wait(now), shortest)
	}
	if got := p.WaitFor(now, 2); got != 0 {
		t.Errorf("waits %v for a new spec, want none", got)
	}
	// The cost of its passes is still known.
	now = now.Add(shortest)
	p.Passed(now, 1, time.Second, 0)
	if got, want := p.Wait(now), share*10*time.Millisecond*5/4; got != want {
		t.Errorf("waits %v after the next pass, want %v", got, want)
	}
}

// Writers would run dry if the pause began only when the last of them is done.
func TestTheTimeOfTheWritesCountsForThePause(t *testing.T) {
	for written, want := range map[time.Duration]time.Duration{
		0:                      120 * time.Millisecond,
		30 * time.Millisecond:  90 * time.Millisecond,
		time.Second:            shortest,
		-20 * time.Millisecond: 140 * time.Millisecond, // a clock that went back
	} {
		now, p := start(), &Pace{}
		p.Passed(now, 1, 10*time.Millisecond, written)
		if got := p.Wait(now); got != want {
			t.Errorf("after writes of %v it waits %v, want %v", written, got, want)
		}
	}
}
