// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"

	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Source is what lets a controller watch objects of one kind: [source.Kind], but synced as soon as the cache holds the objects of that kind.
// source.Kind waits for everything the cache reads. One kind of object that the operator may not list, needed by a single workload, would
// keep controllers that have not started yet from ever starting.
func Source(c ctrlcache.Cache, object client.Object, events handler.EventHandler, predicates ...predicate.Predicate) source.SyncingSource {
	return source.Kind(ownInformer{c}, object, events, predicates...)
}

// ownInformer is a cache whose user waits for the informers that it gets, and for no others.
type ownInformer struct{ ctrlcache.Cache }

// WaitForCacheSync has nothing to wait for: GetInformer returns when the informer is synced.
func (ownInformer) WaitForCacheSync(context.Context) bool { return true }
