// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// MapFunc maps another object to the reconciled objects it concerns, any number.
type MapFunc func(ctx context.Context, object client.Object) []types.NamespacedName

// NodeMapFunc maps a node's change to the reconciled objects it concerns. before is nil for
// an added node, after for a deleted one.
type NodeMapFunc func(ctx context.Context, before, after *corev1.Node) []types.NamespacedName

// Index adds an index on objects of a kind.
type Index func(ctx context.Context, indexer client.FieldIndexer, object client.Object) error

// Watches trigger passes over a kind's objects, besides their own changes.
type Watches struct {
	// OthersWriteStatus: others write to the objects' status, too, and its changes trigger
	// passes.
	OthersWriteStatus bool
	// Pods names the objects a pod concerns. Nil watches no pods. It is not asked while the
	// kind has no object, unless PodsCreate: it names objects yet to be created.
	Pods       MapFunc
	PodsCreate bool
	// PodChanged decides if a pod's change triggers passes over these objects. Nil: every
	// change does.
	PodChanged func(before, after *corev1.Pod) bool
	// Revisions watches the objects' ControllerRevisions.
	Revisions bool
	// Nodes names the objects a node concerns; heartbeats trigger no pass. Nil watches no
	// nodes.
	Nodes MapFunc
	// NodeChanges is Nodes for kinds that compare before and after.
	NodeChanges NodeMapFunc
	// Further starts watches of the kind's own beside the cache, and does not wait for them. They end with ctx; enqueue adds an object to the queue.
	Further func(ctx context.Context, enqueue func(types.NamespacedName)) error
}

// watchAll starts the kind's own watch and Watches.
func (b *Base) watchAll(ctx context.Context, watches Watches) error {
	if err := b.controller.Watch(source.Func(b.keepQueue)); err != nil {
		return err
	}
	changes := b.counting()
	if !watches.OthersWriteStatus {
		changes.UpdateFunc = specOrMetadataChanged
	}
	if err := b.watch(ctx, Object(b.Kind), &handler.EnqueueRequestForObject{}, changes); err != nil {
		return err
	}
	if watches.Pods != nil {
		var only []predicate.Predicate
		if watches.PodChanged != nil {
			only = append(only, podChanges(watches.PodChanged))
		}
		if !watches.PodsCreate {
			only = append([]predicate.Predicate{b.unlessNone()}, only...)
		}
		if err := b.watch(ctx, &corev1.Pod{}, b.enqueueMapped(watches.Pods), only...); err != nil {
			return err
		}
	}
	if watches.Revisions {
		if err := b.watch(ctx, &appsv1.ControllerRevision{}, b.enqueueMapped(b.Controller)); err != nil {
			return err
		}
	}
	if watches.Further != nil {
		if err := b.controller.Watch(source.Func(func(ctx context.Context, _ queue) error { return watches.Further(ctx, b.Enqueue) })); err != nil {
			return fmt.Errorf("starting further watches: %w", err)
		}
	}
	if watches.NodeChanges != nil {
		return b.watch(ctx, &corev1.Node{}, b.enqueueByNodes(watches.NodeChanges), cache.NodeChanges())
	}
	if watches.Nodes != nil {
		return b.watch(ctx, &corev1.Node{}, b.enqueueMapped(watches.Nodes), cache.NodeChanges())
	}
	return nil
}

// counting drops nothing, and counts the objects of the kind.
func (b *Base) counting() predicate.Funcs {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { b.objects.Add(1); return true },
		DeleteFunc: func(event.DeleteEvent) bool { b.objects.Add(-1); return true },
	}
}

// unlessNone drops all events of other objects while the kind has no object: unused kinds
// cost next to nothing. Nothing is missed: the first pass over a new object begins after it
// was counted, and the cache has the dropped changes.
func (b *Base) unlessNone() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(client.Object) bool { return b.objects.Load() > 0 })
}

// podChanges drops irrelevant updates of pods.
func podChanges(matters func(before, after *corev1.Pod) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isPod := e.ObjectOld.(*corev1.Pod)
		after, same := e.ObjectNew.(*corev1.Pod)
		return !isPod || !same || before.UID != after.UID || matters(before, after)
	}}
}

func (b *Base) watch(ctx context.Context, object client.Object, events handler.EventHandler, changes ...predicate.Predicate) error {
	kind, err := b.Client.GroupVersionKindFor(object)
	if err != nil {
		return fmt.Errorf("naming the kind of %T: %w", object, err)
	}
	if _, err := b.follow(ctx, kind, object); err != nil {
		return err
	}
	return b.controller.Watch(cache.Source(b.Cache, object, events, changes...))
}

func (b *Base) keepQueue(_ context.Context, q queue) error {
	b.queue.Store(&q)
	return nil
}

// Enqueue adds an object to the queue.
func (b *Base) Enqueue(name types.NamespacedName) {
	if q := b.queue.Load(); q != nil {
		(*q).Add(reconcile.Request{NamespacedName: name})
	}
}

// enqueueAfter adds an object to the queue after a while, whatever else is asked for it.
func (b *Base) enqueueAfter(name types.NamespacedName, wait time.Duration) {
	if q := b.queue.Load(); q != nil {
		(*q).AddAfter(reconcile.Request{NamespacedName: name}, wait)
	}
}

// WatchLate starts the watch of a further kind, once: when the first workload needs it.
// Until the cache holds its objects it fails with ErrNotSynced, or ErrDenied, so no worker
// waits. With a nil mapFunc they trigger no pass. Add indexes before.
func (b *Base) WatchLate(ctx context.Context, object client.Object, mapFunc MapFunc, indexes ...Index) error {
	return b.WatchLateGathering(ctx, object, mapFunc, 0, indexes...)
}

// WatchLateGathering is WatchLate, but changes of the status alone trigger a pass gather
// after the first of them: an object depending on many others is planned once for all.
func (b *Base) WatchLateGathering(ctx context.Context, object client.Object, mapFunc MapFunc, gather time.Duration, indexes ...Index) error {
	var events handler.EventHandler
	if mapFunc != nil {
		events = b.gathering(mapFunc, gather)
	}
	return b.watchLate(ctx, object, events, nil, indexes...)
}

// WatchLateSpecs is WatchLate, but changes of nothing but the status trigger no pass.
func (b *Base) WatchLateSpecs(ctx context.Context, object client.Object, mapFunc MapFunc) error {
	return b.watchLate(ctx, object, b.enqueueMapped(mapFunc), []predicate.Predicate{Changes()})
}

func (b *Base) watchLate(ctx context.Context, object client.Object, events handler.EventHandler, changes []predicate.Predicate, indexes ...Index) error {
	kind, err := b.Client.GroupVersionKindFor(object)
	if err != nil {
		return fmt.Errorf("naming the kind of %T: %w", object, err)
	}
	b.late.Lock()
	defer b.late.Unlock()
	informer, started := b.informers[kind]
	if !started {
		if informer, err = b.follow(ctx, kind, object); err != nil {
			return err
		}
		for _, add := range indexes {
			if err := add(ctx, b.Cache, object); err != nil {
				return err
			}
		}
		if events != nil {
			if err := b.controller.Watch(cache.Source(b.Cache, object, events, changes...)); err != nil {
				return fmt.Errorf("watching %s: %w", kind.Kind, err)
			}
		}
		lazy.Put(&b.informers, kind, informer)
	}
	if informer.HasSynced() {
		return nil
	}
	if why := b.denied(kind); why != "" {
		return fmt.Errorf("%w: %s", ErrDenied, why)
	}
	return ErrNotSynced
}

// WatchDeletions watches only deletions of a further kind for passes over the objects they
// concern. It is for Setup: the reconciler begins when the cache holds the objects.
func (b *Base) WatchDeletions(ctx context.Context, object client.Object, mapFunc MapFunc) error {
	return b.watch(ctx, object, b.enqueueMapped(mapFunc), predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectNew.GetDeletionTimestamp() != nil && e.ObjectOld.GetDeletionTimestamp() == nil
		},
	})
}

// denied is the server's refusal to let the kind be read; empty if there is none.
func (b *Base) denied(kind schema.GroupVersionKind) string {
	mapping, err := b.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return ""
	}
	return b.Denied.Of(mapping.Resource.GroupResource())
}

// follow registers the store of this kind's writes with the tracker. It does not wait for
// the cache.
func (b *Base) follow(ctx context.Context, kind schema.GroupVersionKind, object client.Object) (ctrlcache.Informer, error) {
	informer, err := b.Cache.GetInformer(ctx, object, ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", kind.Kind, err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, fmt.Errorf("the informer of %s is a %T: only a cluster-wide cache can tell how far it has come", kind.Kind, informer)
	}
	b.Tracker.Watch(kind, shared.GetStore())
	if b.CatchUp != nil {
		b.CatchUp.Follow(kind, shared.GetStore())
	}
	return informer, nil
}

// Changes leaves out updates of a status.
func Changes() predicate.Predicate { return predicate.Funcs{UpdateFunc: specOrMetadataChanged} }

// specOrMetadataChanged drops updates of the status alone, our own.
func specOrMetadataChanged(e event.UpdateEvent) bool {
	return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
		e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
		e.ObjectNew.GetDeletionTimestamp() != nil ||
		!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) ||
		!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
}

// enqueueMapped adds the objects another object concerns to the queue, at their pace, and
// after a change of its metadata or spec also those it concerned before.
func (b *Base) enqueueMapped(mapFunc MapFunc) handler.EventHandler { return b.gathering(mapFunc, 0) }

// gathering is enqueueMapped, but changes of the status alone trigger a pass after gather
// at the earliest. Passes due earlier stay.
func (b *Base) gathering(mapFunc MapFunc, gather time.Duration) handler.EventHandler {
	enqueue := func(ctx context.Context, object client.Object, q queue, wait time.Duration) {
		for _, name := range mapFunc(ctx, object) {
			b.enqueueFor(q, name, wait)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, e.Object, q, 0) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() {
				return // A resync.
			}
			if e.ObjectOld.GetGeneration() == e.ObjectNew.GetGeneration() && sameMetadata(e.ObjectOld, e.ObjectNew) {
				enqueue(ctx, e.ObjectNew, q, gather)
				return
			}
			enqueue(ctx, e.ObjectNew, q, 0)
			enqueue(ctx, e.ObjectOld, q, 0)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, e.Object, q, 0) },
	}
}

// enqueueByNodes adds the objects a node's change concerns to the queue, at their pace.
func (b *Base) enqueueByNodes(mapFunc NodeMapFunc) handler.EventHandler {
	enqueue := func(ctx context.Context, before, after client.Object, q queue) {
		was, _ := before.(*corev1.Node)
		is, _ := after.(*corev1.Node)
		for _, name := range mapFunc(ctx, was, is) {
			b.enqueueFor(q, name, 0)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, nil, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { enqueue(ctx, e.ObjectOld, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, e.Object, nil, q) },
	}
}

// sameMetadata is true if owners, labels and annotations, the metadata that concerns
// others, are equal.
func sameMetadata(a, b client.Object) bool {
	return maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations()) &&
		slices.EqualFunc(a.GetOwnerReferences(), b.GetOwnerReferences(), func(x, y metav1.OwnerReference) bool { return x.UID == y.UID })
}

// Controller names the reconciled object controlling another one, if any, in whatever
// version. It is a MapFunc.
func (b *Base) Controller(_ context.Context, object client.Object) []types.NamespacedName {
	owner := cache.ControllerOf(object, sets.New(b.Kind.GroupKind()))
	if owner == nil {
		return nil
	}
	if b.Scope == kinds.Cluster {
		return []types.NamespacedName{{Name: owner.Name}}
	}
	return []types.NamespacedName{{Namespace: object.GetNamespace(), Name: owner.Name}}
}
