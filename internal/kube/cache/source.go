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

// Source lets a controller watch a kind: [source.Kind], but synced as soon as the cache
// holds this kind. source.Kind waits for everything the cache reads. One kind the operator
// may not list, needed by a single workload, would keep further controllers from ever
// starting.
func Source(c ctrlcache.Cache, object client.Object, events handler.EventHandler, predicates ...predicate.Predicate) source.SyncingSource {
	return source.Kind(ownInformer{c}, object, events, predicates...)
}

// ownInformer is a cache with waits only for its user's own informers.
type ownInformer struct{ ctrlcache.Cache }

// WaitForCacheSync has nothing to wait for: GetInformer returns when the informer is synced.
func (ownInformer) WaitForCacheSync(context.Context) bool { return true }
