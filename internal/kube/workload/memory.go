// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/kube/executor"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/pacing"
	"github.com/kruise-operator/kruise-operator/internal/kube/statuspatch"
)

// Memory is what is remembered of one object between its passes. Losing it costs time only. It belongs to the worker that has the object,
// but for the pace and the nodes, which events ask for.
type Memory struct {
	// uid is the object's: one created again under the name starts without memory.
	uid types.UID
	// writes may not be in the cache yet.
	writes freshness.Record
	// Pace says when the object may be planned next.
	Pace pacing.Pace
	// status is when its status was written last.
	status statuspatch.State
	// verdict is the server's answer about its template, refusal the one about recording it.
	verdict verdict
	refusal refusal
	// pulls is the last failure to have its images pulled ahead.
	pulls pulls
	// requests are others' requests holding its pods.
	requests requests
	// Pods are its pods at rest.
	Pods podset.AtRest
	// actions is the result of its last plans.
	actions executor.State
	// nodes is what the last pass saw of the nodes. Events ask for it, too.
	nodes atomic.Pointer[NodesSeen]
	// undecodable is true if the last pass could not decode the object.
	undecodable bool
	// lookedForSpread is true once the server was asked for its WorkloadSpread.
	lookedForSpread bool
	// Own is the kind's own memory; nil at first.
	Own any
}

// Own returns a kind's additional memory of an object; the first call makes it with empty.
// A kind has one type for it: a value of another type would replace it.
func Own[T any](m *Memory, empty func() *T) *T {
	own, ok := m.Own.(*T)
	if !ok {
		own = empty()
		m.Own = own
	}
	return own
}

// memories holds one Memory for each object.
type memories struct {
	mu     sync.Mutex
	byName map[types.NamespacedName]*Memory
}

// of returns the memory of an object, an empty one if there is none of its UID.
func (m *memories) of(owner freshness.Owner) *Memory {
	name := owner.NamespacedName
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.byName[name]
	if known == nil || known.uid != owner.UID {
		known = &Memory{uid: owner.UID}
		lazy.Put(&m.byName, name, known)
	}
	return known
}

// known returns the memory of the object of this name; nil if there is none.
func (m *memories) known(name types.NamespacedName) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byName[name]
}

// forget drops the memory of the object of this name.
func (m *memories) forget(name types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byName, name)
}

// Remembered returns the memory of an object.
func (b *Base) Remembered(object client.Object) *Memory {
	return b.memories.of(freshness.OwnerOf(object))
}

// Undecodable is true if the last pass could not decode the object of this name.
func (b *Base) Undecodable(name types.NamespacedName) bool {
	memory := b.memories.known(name)
	return memory != nil && memory.undecodable
}

// Forget drops the memory of a deleted object.
func (b *Base) Forget(name types.NamespacedName) {
	b.memories.forget(name)
	if b.Pool != nil {
		b.Pool.Forget(b.Name, b.Workers, name)
	}
}

// enqueueFor plans the object of this name after an event about another: as soon as its
// pace allows, but not before gather has passed.
func (b *Base) enqueueFor(q queue, name types.NamespacedName, gather time.Duration) {
	if memory := b.memories.known(name); memory != nil {
		gather = max(gather, memory.Pace.Wait(b.Clock.Now()))
	}
	q.AddAfter(reconcile.Request{NamespacedName: name}, gather)
}
