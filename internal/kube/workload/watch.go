// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kruise-operator/kruise-operator/internal/kube/index"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Of names the workload that an object belongs to, if there is one.
type Of func(ctx context.Context, object client.Object) (types.NamespacedName, bool)

// Watch starts the watches that every workload needs: its own kind, pods and revisions. ofPod names the workload of a pod.
func (t *Tools) Watch(ctx context.Context, ofPod Of) error {
	own := &unstructured.Unstructured{}
	own.SetGroupVersionKind(t.Kind)
	if err := t.controller.Watch(source.Func(t.keepQueue)); err != nil {
		return err
	}
	for object, events := range map[client.Object]source.Source{
		own:                          source.Kind(t.Cache, client.Object(own), &handler.EnqueueRequestForObject{}, predicate.Funcs{UpdateFunc: asksForSomething}),
		&corev1.Pod{}:                source.Kind(t.Cache, client.Object(&corev1.Pod{}), t.mapping(ofPod)),
		&appsv1.ControllerRevision{}: source.Kind(t.Cache, client.Object(&appsv1.ControllerRevision{}), t.mapping(t.ofController)),
	} {
		if _, err := t.follow(ctx, object); err != nil {
			return err
		}
		if err := t.controller.Watch(events); err != nil {
			return fmt.Errorf("watching %T: %w", object, err)
		}
	}
	return nil
}

func (t *Tools) keepQueue(_ context.Context, q queue) error {
	t.queue.Store(&q)
	return nil
}

// wake has a workload reconciled.
func (t *Tools) wake(name types.NamespacedName) {
	if q := t.queue.Load(); q != nil {
		(*q).Add(reconcile.Request{NamespacedName: name})
	}
}

// WatchLate starts the watch of a further kind of object, once: when the first workload needs it. Until the cache holds these objects it
// fails with ErrNotSynced, so that no worker waits. Where of is nil they wake nobody. Indexes are added before.
func (t *Tools) WatchLate(ctx context.Context, object client.Object, of Of, indexes ...func(context.Context, client.FieldIndexer) error) error {
	kind, err := t.Client.GroupVersionKindFor(object)
	if err != nil {
		return fmt.Errorf("naming the kind of %T: %w", object, err)
	}
	t.late.Lock()
	defer t.late.Unlock()
	informer, started := t.informers[kind]
	if !started {
		if informer, err = t.follow(ctx, object); err != nil {
			return err
		}
		for _, add := range indexes {
			if err := add(ctx, t.Cache); err != nil {
				return err
			}
		}
		if of != nil {
			if err := t.controller.Watch(source.Kind(t.Cache, object, t.mapping(of))); err != nil {
				return fmt.Errorf("watching %T: %w", object, err)
			}
		}
		if t.informers == nil {
			t.informers = map[schema.GroupVersionKind]cache.Informer{}
		}
		t.informers[kind] = informer
	}
	if !informer.HasSynced() {
		return ErrNotSynced
	}
	return nil
}

// follow tells the tracker where writes of this kind will show. It does not wait until the cache holds them.
func (t *Tools) follow(ctx context.Context, object client.Object) (cache.Informer, error) {
	informer, err := t.Cache.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("getting the informer of %T: %w", object, err)
	}
	kind, err := t.Client.GroupVersionKindFor(object)
	if err != nil {
		return nil, fmt.Errorf("naming the kind of %T: %w", object, err)
	}
	return informer, t.Tracker.Watch(kind, informer)
}

// asksForSomething drops updates of a workload that change nothing but its status, which only we write.
func asksForSomething(e event.UpdateEvent) bool {
	return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
		e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
		e.ObjectNew.GetDeletionTimestamp() != nil ||
		!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) ||
		!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
}

// mapping wakes the workload that an object belongs to, no earlier than it is its turn, and on a change also the one it belonged to.
func (t *Tools) mapping(of Of) handler.EventHandler {
	wake := func(ctx context.Context, object client.Object, q queue) {
		if name, ok := of(ctx, object); ok {
			q.AddAfter(reconcile.Request{NamespacedName: name}, t.Pacer.Wait(name))
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { wake(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() {
				return // A resync.
			}
			wake(ctx, e.ObjectNew, q)
			if !sameController(e.ObjectOld, e.ObjectNew) {
				wake(ctx, e.ObjectOld, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { wake(ctx, e.Object, q) },
	}
}

func sameController(a, b client.Object) bool {
	before, after := metav1.GetControllerOfNoCopy(a), metav1.GetControllerOfNoCopy(b)
	if before == nil || after == nil {
		return before == after
	}
	return before.UID == after.UID
}

func (t *Tools) ofController(_ context.Context, object client.Object) (types.NamespacedName, bool) {
	return ControllerOf(object, t.Kind)
}

// ControllerOf names the workload of the kind that controls object, whatever the version it does so in.
func ControllerOf(object client.Object, kind schema.GroupVersionKind) (types.NamespacedName, bool) {
	owner := index.ControllerOf(object, sets.New(kind.GroupKind()))
	if owner == nil {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: owner.Name}, true
}
