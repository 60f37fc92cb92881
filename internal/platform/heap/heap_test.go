// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package heap

import (
	"context"
	"runtime/debug"
	"testing"
)

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{
		0:         most,
		1 << 20:   most,
		12 << 20:  400,
		32 << 20:  150,
		33 << 20:  145,
		64 << 20:  75,
		100 << 20: 75,
		10 << 30:  75,
	} {
		if got := percent(live); got != want {
			t.Errorf("with %d MiB that stay: %d, want %d", live>>20, got, want)
		}
	}
}

func TestMemoryIsGivenBackAtRest(t *testing.T) {
	p := pace{}
	allocated := uint64(0)
	for i, step := range []struct {
		live, more       uint64
		want             int
		changed, release bool
	}{
		{live: 12 << 20, more: 60 << 20, want: 400, changed: true}, // the start is work
		{live: 12 << 20, more: 1 << 10, want: 400},
		{live: 24 << 20, more: 8 << 20, want: 200, changed: true},
		{live: 24 << 20, more: 1 << 10, want: 200},
		{live: 24 << 20, more: 1 << 10, want: 200},
		{live: 24 << 20, more: 1 << 10, want: share, changed: true, release: true},
		{live: 24 << 20, more: 1 << 10, want: share},
		{live: 24 << 20, more: 4 << 20, want: 200, changed: true},
		// Of a large heap nothing was held beyond its share.
		{live: 100 << 20, more: 90 << 20, want: share, changed: true},
		{live: 100 << 20, want: share},
		{live: 100 << 20, want: share},
		{live: 100 << 20, want: share},
	} {
		allocated += step.more
		changed, release := p.next(step.live, allocated)
		if p.set != step.want || changed != step.changed || release != step.release {
			t.Errorf("%d: %d, changed %v, released %v", i, p.set, changed, release)
		}
	}
}

func TestTuneLeavesGOGCAlone(t *testing.T) {
	before := debug.SetGCPercent(123)
	defer debug.SetGCPercent(before)
	t.Setenv("GOGC", "123")
	Tune(t.Context())
	if got := debug.SetGCPercent(123); got != 123 {
		t.Errorf("the percentage is %d", got)
	}

	t.Setenv("GOGC", "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	Tune(ctx)
	if got := debug.SetGCPercent(123); got == 123 {
		t.Error("the percentage was not set")
	}
}
