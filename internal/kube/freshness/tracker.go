// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package freshness answers one question before a workload is planned: does the cache contain the operator's own writes for it?
//
// A reconcile on a stale view creates a pod twice, deletes two instead of one, or takes too
// many out of service. So every write notes its resourceVersion under its owner, and the
// owner is planned again only when the cache has reached it. The rules:
//
//   - An owner waits for its own writes, never for another owner's.
//   - A write with unknown outcome (timeout, lost connection) is looked up live, once,
//     before the next plan.
//   - An object we deleted or evicted counts as terminating while the cache shows it whole:
//     these calls return no resourceVersion.
//   - No record blocks for ever: after five minutes it is given up. A plan on an older view is still safe then, because names are chosen
//     before the first try and writes carry the UID and resourceVersion they were decided on.
//   - After a restart nothing is recorded, and the first list of the cache is a consistent read.
//
// A resource's resourceVersions are compared in the server's order. Wait only for objects'
// versions: a list's may lie ahead of every event for minutes on a quiet resource. The
// cache must be cluster-wide: with namespaces configured an informer is a set, with a
// resourceVersion each.
package freshness

import (
	"context"
	"iter"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
)

const (
	// recordTimeout is how long a record may hold its owner back.
	recordTimeout = 5 * time.Minute
	// lookAgain is how long a deleted pod may look whole in the cache before it is looked up live, and how long until the next time.
	lookAgain = 5 * time.Second
	// shortestWait and longestWait bound Ready's waits; they double from the first to the
	// second.
	shortestWait = 20 * time.Millisecond
	longestWait  = time.Second
)

// Owner is the object writes are for; its namespace is empty if cluster-scoped. A Tracker
// serves one controller's owners.
type Owner struct {
	types.NamespacedName
	UID types.UID
}

// OwnerOf returns the object as an Owner.
func OwnerOf(object metav1.Object) Owner {
	return Owner{
		NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()},
		UID:            object.GetUID(),
	}
}

// Ref names an object, in any namespace.
type Ref struct {
	Kind schema.GroupVersionKind
	// Namespace is empty for a cluster-scoped object.
	Namespace, Name string
	// UID and ResourceVersion are the write's basis; empty for a creation.
	UID             types.UID
	ResourceVersion string
}

// RefOf returns the Ref of object, an object of the given kind as it was observed.
func RefOf(kind schema.GroupVersionKind, object metav1.Object) Ref {
	return Ref{
		Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(),
		UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
	}
}

// Op is a write's intention.
type Op string

const (
	// Create makes an object.
	Create Op = "Create"
	// Patch changes one, a subresource included.
	Patch Op = "Patch"
	// Apply makes an object or changes it.
	Apply Op = "Apply"
	// Delete deletes or evicts one.
	Delete Op = "Delete"
)

// Store says how far a cache has come. The store of a client-go informer is one.
type Store interface {
	LastStoreSyncResourceVersion() string
}

// Look reads the metadata of an object past the cache.
type Look func(context.Context, schema.GroupVersionKind, types.NamespacedName) (*metav1.PartialObjectMetadata, error)

// Tracker knows the writes not yet surely seen. Each owner's state is in its Record. It is
// safe for concurrent use.
type Tracker struct {
	look  Look
	clock clock.PassiveClock
	// records has the record of an owner: the same one for as long as the owner is remembered.
	records func(Owner) *Record

	mu     sync.RWMutex
	stores map[schema.GroupVersionKind]Store
	// asked are the kinds of Deleted. Other deletions are forgotten after their pass:
	// preconditions make repeating them safe.
	asked sync.Map
}

// Record is the knowledge of one owner's writes. The zero value has none.
type Record struct {
	mu sync.Mutex
	// written is, by kind, the highest resourceVersion written and not yet seen.
	written map[schema.GroupVersionKind]mark
	// unknown are the writes with unknown outcome.
	unknown map[Ref]doubt
	// deleted are our deletions, perhaps not in the cache yet.
	deleted map[types.UID]deletion
	// waits counts how often in a row Ready said no.
	waits int
}

type mark struct {
	resourceVersion string
	at              time.Time
}

type doubt struct {
	op Op
	at time.Time
}

type deletion struct {
	ref      Ref
	at       time.Time
	lookedAt time.Time
}

// New returns a Tracker with these records.
func New(look Look, c clock.PassiveClock, records func(Owner) *Record) *Tracker {
	return &Tracker{look: look, clock: c, records: records, stores: map[schema.GroupVersionKind]Store{}}
}

// Watch lets writes of kind be waited for in store. Writes of other kinds are not waited for.
func (t *Tracker) Watch(kind schema.GroupVersionKind, store Store) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stores[kind] = store
}

// Wrote notes a successful write and the resourceVersion it returned.
func (t *Tracker) Wrote(o Owner, kind schema.GroupVersionKind, resourceVersion string) {
	r := t.lock(o)
	defer r.mu.Unlock()
	t.wrote(r, kind, resourceVersion)
}

// lock returns the record of an owner, locked.
func (t *Tracker) lock(o Owner) *Record {
	r := t.records(o)
	r.mu.Lock()
	return r
}

func (t *Tracker) wrote(r *Record, kind schema.GroupVersionKind, resourceVersion string) {
	last, ok := r.written[kind]
	if ok && Reached(last.resourceVersion, resourceVersion) {
		return
	}
	lazy.Put(&r.written, kind, mark{resourceVersion: resourceVersion, at: t.clock.Now()})
}

// Answered records a write's response: its resourceVersion (empty for a deletion), or its
// doubt. A surely refused write leaves no trace.
func (t *Tracker) Answered(o Owner, ref Ref, op Op, resourceVersion string, err error) {
	r := t.lock(o)
	defer r.mu.Unlock()
	switch outcome := Judge(err); {
	case outcome == Done && resourceVersion != "":
		t.wrote(r, ref.Kind, resourceVersion)
	case outcome == InDoubt:
		lazy.Put(&r.unknown, ref, doubt{op: op, at: t.clock.Now()})
	case outcome == Refused && op == Delete:
		delete(r.deleted, ref.UID)
	}
}

// Deleting notes an object about to be deleted or evicted. Call it before the request: from
// then on nothing may count on the object, until the cache shows the deletion or Answered
// hears of its refusal.
func (t *Tracker) Deleting(o Owner, ref Ref) {
	r := t.lock(o)
	defer r.mu.Unlock()
	now := t.clock.Now()
	lazy.Put(&r.deleted, ref.UID, deletion{ref: ref, at: now, lookedAt: now})
}

// Deleted returns our deleted objects without a deletion timestamp in the view, for
// planners to treat as terminating. The objects are all of the view's kind. It reads none
// without anything to look for.
func (t *Tracker) Deleted(o Owner, kind schema.GroupVersionKind, objects iter.Seq[metav1.Object]) sets.Set[types.UID] {
	t.asked.Store(kind, true)
	r := t.lock(o)
	defer r.mu.Unlock()
	if len(r.deleted) == 0 {
		return nil
	}
	deleted := sets.New[types.UID]()
	for object := range objects {
		if _, ok := r.deleted[object.GetUID()]; ok && object.GetDeletionTimestamp() == nil {
			deleted.Insert(object.GetUID())
		}
	}
	for uid, d := range r.deleted {
		if d.ref.Kind == kind && !deleted.Has(uid) {
			delete(r.deleted, uid)
		}
	}
	return deleted
}

// Ready returns zero if the cache has all the owner's writes, else the time to wait. It
// reads doubtful writes live; if this fails, the owner has to wait, too. The owner's writes
// must be over.
func (t *Tracker) Ready(ctx context.Context, o Owner) (time.Duration, error) {
	err := t.resolve(ctx, o)

	r := t.lock(o)
	defer r.mu.Unlock()
	now := t.clock.Now()
	for kind, m := range r.written {
		store, watched := t.store(kind)
		if !watched || Reached(store.LastStoreSyncResourceVersion(), m.resourceVersion) || now.Sub(m.at) > recordTimeout {
			delete(r.written, kind)
		}
	}
	if len(r.written) == 0 && len(r.unknown) == 0 {
		r.waits = 0
		return 0, nil
	}
	wait := min(shortestWait<<min(r.waits, 10), longestWait)
	r.waits++
	return wait, err
}

// Unseen is true if the cache lacks a write for the owner, of another kind than own.
func (t *Tracker) Unseen(o Owner, own schema.GroupVersionKind) bool {
	r := t.lock(o)
	defer r.mu.Unlock()
	for kind, m := range r.written {
		if store, watched := t.store(kind); watched && kind != own && !Reached(store.LastStoreSyncResourceVersion(), m.resourceVersion) {
			return true
		}
	}
	return false
}

// store is where objects of a kind show, if they are watched.
func (t *Tracker) store(kind schema.GroupVersionKind) (Store, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	store, watched := t.stores[kind]
	return store, watched
}

// Reached is true if version have is not older than want. Incomparable versions hold
// nothing back, except an empty one: nothing was seen yet.
func Reached(have, want string) bool {
	if have == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(have, want)
	return err != nil || order >= 0
}
