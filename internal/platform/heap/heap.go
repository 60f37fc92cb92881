// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package heap says when the heap is collected.
//
// The operator's heap is mostly caches that stay, and what is allocated beside them is soon thrown away. With Go's own rule, a share of
// what stays, a small cluster's few megabytes are collected several times a second: a fifth of the CPU time of an update. A larger share
// would cost a large cluster its memory, and so would a larger share at rest, when an operator with nothing to do would hold garbage.
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
	// least is how much may be allocated in any case while there is work, in bytes.
	least = 48 << 20
	// most bounds the percentage: what stays may grow before it is measured again.
	most = 400
	// interval is how far apart measurements are.
	interval = time.Second
	// work is how many bytes are allocated in an interval by a process that has something to do.
	work = 4 << 20
	// resting is after how many intervals without work the process is at rest.
	resting = 3
)

// Tune keeps the percentage of the garbage collector right until ctx is done: the heap is collected when 75 % of what stays has been
// allocated again, but, while there is work, not before 48 MiB have. What was held for that is given back when the work has ended. GOGC
// has the last word.
func Tune(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for p := (pace{}); ; {
		metrics.Read(sample)
		changed, release := p.next(sample[0].Value.Uint64(), sample[1].Value.Uint64())
		if release {
			debug.FreeOSMemory()
		}
		if changed {
			debug.SetGCPercent(p.set)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// pace is what was seen of a process.
type pace struct {
	allocated uint64
	// quiet is for how many intervals there has been no work.
	quiet int
	// set is the percentage in force.
	set int
}

// next says whether the percentage changes for a heap of which so many bytes stay, and whether to give memory back now. allocated counts
// all bytes since the process began.
func (p *pace) next(live, allocated uint64) (changed, release bool) {
	p.quiet++
	if allocated-p.allocated >= work {
		p.quiet = 0
	}
	p.allocated = allocated
	wanted := share
	if p.quiet < resting {
		wanted = percent(live)
	}
	changed, release = wanted != p.set, p.quiet == resting && p.set > share
	p.set = wanted
	return changed, release
}

// percent is GOGC for a heap of which so many bytes stay. It moves in steps, since each change stops the world for a moment.
func percent(live uint64) int {
	if live == 0 {
		return most
	}
	const step = 5
	return int(min(max(100*least/live/step*step, share), most))
}
