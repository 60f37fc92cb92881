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
