// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// cooling is how long a workload may pause before it has to start small again.
	cooling = 10 * time.Second
	// trusted is how many actions a workload begins with whose namespace has just shown that the server takes such requests.
	trusted = 16
)

// ramps remember, by owner, how many actions could be in flight when the last pass ended. A rollout is many short passes; only the
// first of them starts with one action. Even that is not needed where another workload of the namespace has just got beyond it: what the
// server refuses, it mostly refuses to a whole namespace. So hundreds of small workloads do not each take their first steps one by one.
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
	if last, ok := r.owners[owner]; ok && r.clock.Since(last.at) <= cooling {
		return last.window
	}
	if last, ok := r.owners[namespaceOf(owner)]; ok && r.clock.Since(last.at) <= cooling {
		return min(last.window, trusted)
	}
	return 1
}

// namespaceOf is under which name the last window of a whole namespace is remembered.
func namespaceOf(owner types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: owner.Namespace}
}

// leave notes the window with which a pass ended.
func (r *ramps) leave(owner types.NamespacedName, window int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := ramp{window: window, at: r.clock.Now()}
	r.owners[owner], r.owners[namespaceOf(owner)] = now, now
}

// cool forgets the owner when its last pass with actions was long ago.
func (r *ramps) cool(owner types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range []types.NamespacedName{owner, namespaceOf(owner)} {
		if last, ok := r.owners[name]; ok && r.clock.Since(last.at) > cooling {
			delete(r.owners, name)
		}
	}
}

func (r *ramps) forget(owner types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.owners, owner)
}
