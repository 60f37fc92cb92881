// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package catchup keeps a new leader from planning on a stale cache.
//
// A waiting replica has a warm cache, as far as the watches have come. The earlier leader's
// last writes may be missing: pods would be created twice, or one more taken out of service
// than allowed. So after the election each kind is listed once, directly from the API
// server and as metadata only. Passes begin when the cache has the list:
//
//   - every object in it, at its version or a later one. Informers receive events in the
//     order of versions, so it is enough for the store to reach the highest of them. The
//     list's own version would not do: on a quiet kind no event brings it for a minute.
//   - no object deleted before. An object not in the list, with a version below the list's,
//     must first leave the store.
//
// Kinds watched later need no wait: all supported servers stream lists, and their first
// list is a consistent read.
package catchup

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
)

const (
	// attempt is the deadline of one list. One that failed is tried again after pause.
	attempt = 15 * time.Second
	pause   = time.Second
	// poll is how often the store is looked at.
	poll = 10 * time.Millisecond
	// Timeout bounds the wait for the cache after a list. It is long: a broken watch is
	// made again within seconds.
	Timeout = time.Minute
	// again is when a pass comes back after waiting too long.
	again = time.Second
)

// Store is an informer's content. A client-go informer's store is one.
type Store interface {
	freshness.Store
	List() []any
}

// Gate holds passes back until the caches have caught up. It runs once, in the leader.
type Gate struct {
	live client.Reader
	log  logr.Logger

	mu      sync.Mutex
	stores  map[schema.GroupVersionKind]Store
	started bool
	opened  chan struct{}
}

// New returns a closed gate without kinds. live reads past the cache.
func New(live client.Reader, log logr.Logger) *Gate {
	return &Gate{live: live, log: log, stores: map[schema.GroupVersionKind]Store{}, opened: make(chan struct{})}
}

// Follow has the gate wait for the store of a kind. After the election it does nothing.
func (g *Gate) Follow(kind schema.GroupVersionKind, store Store) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.started {
		g.stores[kind] = store
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (g *Gate) NeedLeaderElection() bool { return true }

// Start opens the gate when all caches have caught up.
func (g *Gate) Start(ctx context.Context) error {
	g.mu.Lock()
	g.started = true
	g.mu.Unlock()
	began := time.Now()
	var all sync.WaitGroup
	for kind, store := range g.stores {
		all.Go(func() {
			if err := g.catchUp(ctx, kind, store); err != nil && ctx.Err() == nil {
				g.log.Error(err, "Going on with a cache that may lag behind", "kind", kind.Kind)
			}
		})
	}
	all.Wait()
	if ctx.Err() == nil {
		close(g.opened)
		g.log.Info("The cache holds what the server had at the election", "after", time.Since(began).Round(time.Millisecond).String())
	}
	return nil
}

// Reconciler returns a reconciler with passes behind the gate.
func (g *Gate) Reconciler(next reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		select {
		case <-g.opened:
			return next.Reconcile(ctx, request)
		case <-ctx.Done(): // the pass has used up its time, or the manager stops
			return reconcile.Result{RequeueAfter: again}, nil
		}
	})
}

// state is the server's list.
type state struct {
	objects map[types.UID]struct{}
	// highest is the highest version of an object, listed the list's.
	highest, listed string
}

func (g *Gate) catchUp(ctx context.Context, kind schema.GroupVersionKind, store Store) error {
	var had state
	told := false
	err := wait.PollUntilContextCancel(ctx, pause, true, func(ctx context.Context) (bool, error) {
		var err error
		had, err = g.list(ctx, kind)
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) || meta.IsNoMatchError(err) {
			return true, nil // then the cache holds nothing of it either
		}
		if err != nil && !told {
			told = true
			g.log.Info("Listing until it succeeds", "kind", kind.Kind, "err", err.Error())
		}
		return err == nil, nil
	})
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, poll, Timeout, true, func(context.Context) (bool, error) { return had.isIn(store), nil })
	if err != nil {
		return fmt.Errorf("the cache of %s has not caught up within %s", kind.Kind, Timeout)
	}
	return nil
}

// list reads the server's present list.
func (g *Gate) list(ctx context.Context, kind schema.GroupVersionKind) (state, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	had := state{objects: map[types.UID]struct{}{}}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	for some, err := range pages.All(ctx, g.live, list) {
		if err != nil {
			return state{}, fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		had.listed = cmp.Or(had.listed, some.ResourceVersion)
		for i := range some.Items {
			had.objects[some.Items[i].UID] = struct{}{}
			if !freshness.Reached(had.highest, some.Items[i].ResourceVersion) {
				had.highest = some.Items[i].ResourceVersion
			}
		}
	}
	return had, nil
}

// isIn is true if the store has the server's state.
func (s state) isIn(store Store) bool {
	if s.highest != "" && !freshness.Reached(store.LastStoreSyncResourceVersion(), s.highest) {
		return false
	}
	for _, stored := range store.List() {
		object, err := meta.Accessor(stored)
		if err != nil {
			continue
		}
		if _, had := s.objects[object.GetUID()]; !had && freshness.Reached(s.listed, object.GetResourceVersion()) {
			return false // it was deleted before
		}
	}
	return true
}
