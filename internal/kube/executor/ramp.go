// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// cooling is how long a workload may pause before it has to start small again.
const cooling = 10 * time.Second

// ramps remember, by owner, how many actions could be in flight when the last pass ended. A rollout is many short passes; only the
// first of them starts with one action.
type ramps struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	owners map[types.NamespacedName]ramp
}

type ramp struct {
	window int
	at     time.Time
}

// resume is how many actions the next pass begins with.
func (r *ramps) resume(owner types.NamespacedName) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.owners[owner]
	if !ok || r.clock.Since(last.at) > cooling {
		return 1
	}
	return last.window
}

// leave notes the window with which a pass ended.
func (r *ramps) leave(owner types.NamespacedName, window int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owners[owner] = ramp{window: window, at: r.clock.Now()}
}

// cool forgets the owner when its last pass with actions was long ago.
func (r *ramps) cool(owner types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.owners[owner]; ok && r.clock.Since(last.at) > cooling {
		delete(r.owners, owner)
	}
}

func (r *ramps) forget(owner types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.owners, owner)
}
