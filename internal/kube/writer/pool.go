// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"context"
	"slices"
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

	mu sync.Mutex
	// shares are the namespaces' parts of the writes, lines those of the workers.
	shares map[string]*share
	lines  map[place]*line
}

// share is one namespace's part of the writes.
type share struct {
	// writes bounds the writes in flight; users counts these and waiting ones.
	writes *semaphore.Weighted
	users  int
}

// place is where workloads wait for a worker.
type place struct{ controller, namespace string }

// line is one controller's part of a namespace: how many workers it has, and the workloads waiting for one.
type line struct {
	workers int
	queue   []waiting
}

type waiting struct {
	name   types.NamespacedName
	notify func()
}

// NewPool returns a Pool for so many writes in flight.
func NewPool(writes int) *Pool {
	writes = max(writes, 2)
	return &Pool{
		writes: int64(writes), all: semaphore.NewWeighted(int64(writes)), slow: cache.NewLRUExpireCache(maxSlow),
		shares: map[string]*share{}, lines: map[place]*line{},
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
	s = p.shares[namespace]
	if s == nil {
		s = &share{writes: semaphore.NewWeighted(p.most())}
		p.shares[namespace] = s
	}
	s.users++
	if p.isSlow(namespace) {
		return s, p.most()
	}
	return s, 1
}

func (p *Pool) part(namespace string, s *share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(p.shares, namespace)
	}
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
	at := place{controller, name.Namespace}
	l := p.lines[at]
	if l == nil {
		l = &line{}
		p.lines[at] = l
	}
	i := slices.IndexFunc(l.queue, func(w waiting) bool { return w.name == name })
	if p.room(l, workers, name.Namespace) <= 0 {
		if i < 0 {
			l.queue = append(l.queue, waiting{name, notify})
		}
		return nil, false
	}
	if i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	l.workers++
	return func() { p.next(at, workers, func(l *line) { l.workers-- }) }, true
}

// room is how many more workers of a controller a namespace may have. The lock is held.
func (p *Pool) room(l *line, workers int, namespace string) int {
	limit := max(workers-1, 1)
	if namespace == "" {
		limit = workers // The owners are cluster-scoped: there are no others to leave a worker to.
	}
	if p.isSlow(namespace) {
		limit = 1
	}
	return limit - l.workers
}

// Forget takes a deleted or idle object out of the queue. If it was notified for a free
// worker, the next object is notified instead: nothing else would.
func (p *Pool) Forget(controller string, workers int, name types.NamespacedName) {
	p.next(place{controller, name.Namespace}, workers, func(l *line) {
		l.queue = slices.DeleteFunc(l.queue, func(w waiting) bool { return w.name == name })
	})
}

// next changes a line, and notifies as many as there is room for then.
func (p *Pool) next(at place, workers int, change func(*line)) {
	p.mu.Lock()
	l := p.lines[at]
	if l == nil {
		p.mu.Unlock()
		return
	}
	change(l)
	n := min(max(p.room(l, workers, at.namespace), 0), len(l.queue))
	first := slices.Clone(l.queue[:n])
	l.queue = l.queue[n:]
	if l.workers == 0 && len(l.queue) == 0 {
		delete(p.lines, at)
	}
	p.mu.Unlock()
	for _, w := range first {
		w.notify()
	}
}
