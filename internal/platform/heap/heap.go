// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package heap says when the heap is collected.
//
// The operator's heap is mostly caches that stay, and what is allocated beside them is soon thrown away. With Go's own rule, a share of
// what stays, a small cluster's few megabytes are collected several times a second: a fifth of the CPU time of an update. A larger share
// would cost a large cluster its memory.
package heap

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// share is how much may be allocated before the next collection, as a percentage of what the last one left.
	share = 75
	// least is how much may be allocated in any case, in bytes.
	least = 48 << 20
	// most bounds the percentage: what stays may grow before it is measured again.
	most = 400
	// interval is how far apart measurements are.
	interval = time.Second
)

// Tune keeps the percentage of the garbage collector right until ctx is done: the heap is collected when 75 % of what stays has been
// allocated again, but not before 48 MiB have. GOGC has the last word.
func Tune(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for set := 0; ; {
		metrics.Read(sample)
		if wanted := percent(sample[0].Value.Uint64()); wanted != set {
			debug.SetGCPercent(wanted)
			set = wanted
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// percent is GOGC for a heap of which so many bytes stay. It moves in steps, since each change stops the world for a moment.
func percent(live uint64) int {
	if live == 0 {
		return most
	}
	const step = 5
	return int(min(max(100*least/live/step*step, share), most))
}
