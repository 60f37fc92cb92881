// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// slowAfter is how long a write may take before its namespace counts as slow.
	slowAfter = 2 * time.Second
	// slowLasts is for how long a namespace counts as slow after its last slow write, if nothing else is written to it. maxSlow are remembered.
	slowLasts = 10 * time.Minute
	maxSlow   = 4096
)

// Pool shares two resources among namespaces: writes in flight, and the workers of a controller. It is safe for concurrent use.
//
// A namespace gets at most three quarters of the writes, so another always finds room.
// While slow it gets one: a write took longer than two seconds, and none has been faster
// since. Such a write counts only against its namespace.
type Pool struct {
	writes int64
	all    *semaphore.Weighted
	// slow are the slow namespaces.
	slow *cache.LRUExpireCache

	mu         sync.Mutex
	namespaces map[string]*share
}

// share is one namespace's part.
type share struct {
	// writes bounds the writes in flight; users counts these and waiting ones.
	writes *semaphore.Weighted
	users  int
	// workers is how many workers it holds, by controller.
	workers map[string]int
	// queues hold the workloads waiting for a worker, by controller.
	queues map[string]*queue
}

// queue holds workloads waiting for a worker. A name in order but not in notify has a
// worker by now, or is gone.
type queue struct {
	order  []types.NamespacedName
	notify map[types.NamespacedName]func()
}

// NewPool returns a Pool for so many writes in flight.
func NewPool(writes int) *Pool {
	writes = max(writes, 2)
	return &Pool{
		writes: int64(writes), all: semaphore.NewWeighted(int64(writes)), slow: cache.NewLRUExpireCache(maxSlow), namespaces: map[string]*share{},
	}
}

// Writes is how many writes may be in flight at a time.
func (p *Pool) Writes() int { return int(p.writes) }

// most is how many writes one namespace may have in flight.
func (p *Pool) most() int64 { return p.writes - p.writes/4 }

// Begin waits until another write to the namespace may begin. It returns false if ctx ends before; otherwise end has to be called when the write is over.
func (p *Pool) Begin(ctx context.Context, namespace string) (end func(), ok bool) {
	s, weight := p.join(namespace)
	if s.writes.Acquire(ctx, weight) != nil {
		p.part(namespace, s)
		return nil, false
	}
	if p.all.Acquire(ctx, 1) != nil {
		s.writes.Release(weight)
		p.part(namespace, s)
		return nil, false
	}
	began, leaveAll := time.Now(), sync.OnceFunc(func() { p.all.Release(1) })
	late := time.AfterFunc(slowAfter, func() {
		p.slow.Add(namespace, true, slowLasts)
		leaveAll()
	})
	return func() {
		late.Stop()
		if time.Since(began) < slowAfter {
			p.slow.Remove(namespace)
		}
		leaveAll()
		s.writes.Release(weight)
		p.part(namespace, s)
	}, true
}

// join adds a user to a namespace. It returns how much of the namespace's writes the next one takes: all while it is slow.
func (p *Pool) join(namespace string) (s *share, weight int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s = p.share(namespace)
	s.users++
	if p.isSlow(namespace) {
		return s, p.most()
	}
	return s, 1
}

func (p *Pool) part(namespace string, s *share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.users--
	p.dropIfUnused(namespace, s)
}

// isSlow is true if the namespace gets only one of everything.
func (p *Pool) isSlow(namespace string) bool {
	_, is := p.slow.Get(namespace)
	return is
}

// Enter takes one of a controller's workers for an object, if its namespace may have
// another. A namespace leaves one worker to the others, and holds only one while slow.
// Cluster-scoped objects may have all: there are no others.
//
// Without a place the caller queues, and notify is called when a place becomes free:
// hundreds of workloads asking again and again would keep the workers busy. A notification
// guarantees no place, and none comes for a place freed by time alone, so also requeue with
// a delay.
func (p *Pool) Enter(controller string, workers int, name types.NamespacedName, notify func()) (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.share(name.Namespace)
	q := s.queues[controller]
	if p.room(s, controller, workers, name.Namespace) <= 0 {
		if q == nil {
			q = &queue{notify: map[types.NamespacedName]func(){}}
			s.queues[controller] = q
		}
		if q.notify[name] == nil {
			q.order = append(q.order, name)
		}
		q.notify[name] = notify
		return nil, false
	}
	if q != nil {
		delete(q.notify, name)
	}
	s.workers[controller]++
	return func() { p.leave(s, controller, workers, name.Namespace) }, true
}

// room is how many more workers of a controller a namespace may have. The lock is held.
func (p *Pool) room(s *share, controller string, workers int, namespace string) int {
	limit := max(workers-1, 1)
	if namespace == "" {
		limit = workers // The owners are cluster-scoped: there are no others to leave a worker to.
	}
	if p.isSlow(namespace) {
		limit = 1
	}
	return limit - s.workers[controller]
}

// Forget takes a deleted or idle object out of the queue. If it was notified for a free
// worker, the next object is notified instead: nothing else would.
func (p *Pool) Forget(controller string, workers int, name types.NamespacedName) {
	p.mu.Lock()
	s, known := p.namespaces[name.Namespace]
	if !known || s.queues[controller] == nil {
		p.mu.Unlock()
		return
	}
	delete(s.queues[controller].notify, name)
	notify := p.next(s, controller, workers, name.Namespace)
	p.mu.Unlock()
	for _, notify := range notify {
		notify()
	}
}

// next takes as many out of the queue as there is room for. The lock is held.
func (p *Pool) next(s *share, controller string, workers int, namespace string) []func() {
	var notify []func()
	if q := s.queues[controller]; q != nil {
		if notify = q.take(p.room(s, controller, workers, namespace)); len(q.notify) == 0 {
			delete(s.queues, controller)
		}
	}
	p.dropIfUnused(namespace, s)
	return notify
}

// leave gives a worker back and notifies as many as there is room for.
func (p *Pool) leave(s *share, controller string, workers int, namespace string) {
	p.mu.Lock()
	if s.workers[controller]--; s.workers[controller] == 0 {
		delete(s.workers, controller)
	}
	notify := p.next(s, controller, workers, namespace)
	p.mu.Unlock()
	for _, notify := range notify {
		notify()
	}
}

// take takes the first n out of the queue.
func (q *queue) take(n int) []func() {
	var notify []func()
	for len(q.order) > 0 && len(notify) < n {
		first := q.order[0]
		q.order = q.order[1:]
		if q.notify[first] != nil {
			notify = append(notify, q.notify[first])
			delete(q.notify, first)
		}
	}
	return notify
}

func (p *Pool) share(namespace string) *share {
	s, ok := p.namespaces[namespace]
	if !ok {
		s = &share{writes: semaphore.NewWeighted(p.most()), workers: map[string]int{}, queues: map[string]*queue{}}
		p.namespaces[namespace] = s
	}
	return s
}

// dropIfUnused drops the entry of a namespace if it is no longer needed.
func (p *Pool) dropIfUnused(namespace string, s *share) {
	if s.users == 0 && len(s.workers) == 0 && len(s.queues) == 0 {
		delete(p.namespaces, namespace)
	}
}
