// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestPacer(t *testing.T) {
	web := types.NamespacedName{Namespace: "default", Name: "web"}
	cases := map[string]struct {
		cost, want time.Duration
	}{
		"a cheap pass":     {100 * time.Microsecond, shortest},
		"a costly pass":    {20 * time.Millisecond, 160 * time.Millisecond},
		"a very dear pass": {time.Minute, longest},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
			p := New(c)
			if got := p.Wait(web); got != 0 {
				t.Errorf("the first pass waits %v", got)
			}
			p.Passed(web, 1, tc.cost)
			if got := p.Wait(web); got != tc.want {
				t.Errorf("waits %v, want %v", got, tc.want)
			}
			if got := p.WaitFor(web, 1); got != tc.want {
				t.Errorf("waits %v for the same spec, want %v", got, tc.want)
			}
			if got := p.WaitFor(web, 2); got != 0 {
				t.Errorf("waits %v for a new spec, want none", got)
			}
			c.SetTime(c.Now().Add(tc.want))
			if got := p.Wait(web); got != 0 {
				t.Errorf("still waits %v", got)
			}
			p.Passed(web, 1, tc.cost)
			p.Forget(web)
			if got := p.Wait(web); got != 0 {
				t.Errorf("waits %v after being forgotten", got)
			}
		})
	}
}

func TestOneSlowPassChangesLittle(t *testing.T) {
	web := types.NamespacedName{Namespace: "default", Name: "web"}
	c := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	p := New(c)
	p.Passed(web, 1, 4*time.Millisecond)
	p.Passed(web, 1, 100*time.Millisecond)
	if got, want := p.Wait(web), 40*time.Millisecond; got != want {
		t.Errorf("waits %v after a slow pass, want %v", got, want)
	}
	p.Passed(web, 1, 4*time.Millisecond)
	if got, want := p.Wait(web), 32*time.Millisecond; got != want {
		t.Errorf("waits %v afterwards, want %v", got, want)
	}
	for range 30 {
		p.Passed(web, 1, 100*time.Millisecond)
	}
	if got, want := p.Wait(web), 800*time.Millisecond; got != want {
		t.Errorf("waits %v once all passes are slow, want %v", got, want)
	}
}

func TestAWorkloadThatLacksAWriteIsLookedAtAgainSoon(t *testing.T) {
	web := types.NamespacedName{Namespace: "default", Name: "web"}
	c := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	p := New(c)
	p.Passed(web, 1, 10*time.Millisecond)
	c.SetTime(c.Now().Add(time.Minute))
	if got := p.Waits(web, 1); got != shortest || p.Wait(web) != shortest || p.WaitFor(web, 1) != shortest {
		t.Errorf("looks again after %v, waits %v, want %v", got, p.Wait(web), shortest)
	}
	if got := p.WaitFor(web, 2); got != 0 {
		t.Errorf("waits %v for a new spec, want none", got)
	}
	// The cost of its passes is still known.
	c.SetTime(c.Now().Add(shortest))
	p.Passed(web, 1, time.Second)
	if got, want := p.Wait(web), 100*time.Millisecond; got != want {
		t.Errorf("waits %v after the next pass, want %v", got, want)
	}
}
