// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// slowAfter is how long a write may take before its namespace counts as slow.
	slowAfter = 2 * time.Second
	// slowLasts is for how long a namespace counts as slow after its last slow write, if nothing else is written to it: it may be gone.
	slowLasts = 10 * time.Minute
)

// Pool distributes two resources among namespaces: writes in flight, and the workers of a controller. It is safe for concurrent use.
//
// A namespace gets at most three quarters of the writes, so that another one always finds room. It gets one alone while it is slow:
// its last write took longer than two seconds and is not long ago, or one in flight has. Writes that have been in flight for that long no longer count
// against the pool; they count only against their namespace.
type Pool struct {
	writes int
	clock  clock.WithTicker

	mu         sync.Mutex
	namespaces map[string]*share
	waiting    []*Place
	// swept is when entries were last looked for that only time makes needless.
	swept time.Time
}

// share is what one namespace holds.
type share struct {
	// inFlight are the writes that have begun and are not over.
	inFlight map[*Place]struct{}
	// lastSlow is when the last write ended, if it took too long; otherwise zero.
	lastSlow time.Time
	// workers is how many workers it holds, by controller.
	workers map[string]int
	// queues hold the workloads that wait for a worker, by controller.
	queues map[string]*queue
}

// queue holds the workloads that wait for a worker. A name in order that is not in notify has got a worker meanwhile, or its object is gone.
type queue struct {
	order  []types.NamespacedName
	notify map[types.NamespacedName]func()
}

// NewPool returns a Pool for so many writes in flight. A nil clock is the real one.
func NewPool(writes int, c clock.WithTicker) *Pool {
	if c == nil {
		c = clock.RealClock{}
	}
	return &Pool{writes: max(writes, 2), clock: c, namespaces: map[string]*share{}}
}

// Writes is how many writes may be in flight at a time.
func (p *Pool) Writes() int { return p.writes }

// Place is the right to send writes to one namespace, one at a time.
type Place struct {
	pool      *Pool
	namespace string
	// began is when the place was given.
	began time.Time
	// given is closed when the place is given; nil if it was given at once.
	given chan struct{}
}

// Ask asks for a place. If the second result is false, Wait has to be called. Places are given first come, first served among the
// namespaces that may have another one.
func (p *Pool) Ask(namespace string) (place *Place, given bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveToWaiting()
	place = &Place{pool: p, namespace: namespace}
	if p.mayHave(place, p.counted()) {
		p.give(place)
		return place, true
	}
	place.given = make(chan struct{})
	p.waiting = append(p.waiting, place)
	return place, false
}

// Wait waits until the place is given. It returns false, and the place is given up, if ctx ends before.
func (l *Place) Wait(ctx context.Context) bool {
	// Time alone may make room: a write in flight stops counting when it gets slow.
	tick := l.pool.clock.NewTicker(slowAfter / 4)
	defer tick.Stop()
	for {
		select {
		case <-l.given:
			return true
		case <-ctx.Done():
			return !l.pool.withdraw(l)
		case <-tick.C():
			l.pool.mu.Lock()
			l.pool.giveToWaiting()
			l.pool.mu.Unlock()
		}
	}
}

// End gives the place back.
func (l *Place) End() {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.share(l.namespace)
	s.lastSlow = time.Time{}
	if now := p.clock.Now(); now.Sub(l.began) >= slowAfter {
		s.lastSlow = now
	}
	delete(s.inFlight, l)
	p.dropIfUnused(l.namespace, s)
	p.giveToWaiting()
}

// Enter takes one of the workers of a controller for an object, if its namespace may have another one. A namespace leaves one worker to
// the others, and while it is slow it holds only one. Cluster-scoped objects, which have no others beside them, may have all.
//
// A caller that gets no place queues, and notify is called when a place becomes free: hundreds of workloads that asked again and again would keep
// the workers busy with that alone. A notification does not guarantee a place, and there is none when a place becomes free only by time, so the
// caller should also requeue with a delay.
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
	if p.isSlow(s) {
		limit = 1
	}
	return limit - s.workers[controller]
}

// Forget takes an object that is gone, or has nothing to do now, out of the queue. If it was notified for a free worker, the next object is notified instead:
// otherwise nothing would notify it for that worker.
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

// giveToWaiting gives places to those that wait and may have one, in the order in which they came. The lock is held.
func (p *Pool) giveToWaiting() {
	if len(p.waiting) == 0 {
		return
	}
	counted := p.counted()
	stillWaiting := p.waiting[:0]
	for _, l := range p.waiting {
		if !p.mayHave(l, counted) {
			stillWaiting = append(stillWaiting, l)
			continue
		}
		counted++
		p.give(l)
		close(l.given)
	}
	clear(p.waiting[len(stillWaiting):])
	p.waiting = stillWaiting
}

// mayHave says whether there is room for another write of the namespace while so many count against the pool. The lock is held.
func (p *Pool) mayHave(l *Place, counted int) bool {
	s, known := p.namespaces[l.namespace]
	switch {
	case counted >= p.writes:
		return false
	case !known:
		return true
	case p.isSlow(s):
		return len(s.inFlight) < 1
	default:
		return p.countedOf(s) < p.writes-p.writes/4
	}
}

// give gives a place. The lock is held.
func (p *Pool) give(l *Place) {
	l.began = p.clock.Now()
	p.share(l.namespace).inFlight[l] = struct{}{}
}

// counted is how many writes count against the pool. The lock is held.
func (p *Pool) counted() int {
	n := 0
	for _, s := range p.namespaces {
		n += p.countedOf(s)
	}
	return n
}

// countedOf is how many of them are a namespace's. The lock is held.
func (p *Pool) countedOf(s *share) int {
	n := 0
	for l := range s.inFlight {
		if p.clock.Since(l.began) < slowAfter {
			n++
		}
	}
	return n
}

// isSlow says whether the namespace gets only one of everything. The lock is held.
func (p *Pool) isSlow(s *share) bool {
	return p.wasSlow(s) || p.countedOf(s) < len(s.inFlight)
}

// wasSlow says whether the last write of the namespace took too long, and not too long ago. The lock is held.
func (p *Pool) wasSlow(s *share) bool {
	return !s.lastSlow.IsZero() && p.clock.Since(s.lastSlow) < slowLasts
}

// withdraw gives up a place that was not given. It returns false when it was given after all.
func (p *Pool) withdraw(l *Place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.waiting, l)
	if at < 0 {
		return false
	}
	p.waiting = slices.Delete(p.waiting, at, at+1)
	return true
}

func (p *Pool) share(namespace string) *share {
	s, ok := p.namespaces[namespace]
	if !ok {
		p.sweep()
		s = &share{inFlight: map[*Place]struct{}{}, workers: map[string]int{}, queues: map[string]*queue{}}
		p.namespaces[namespace] = s
	}
	return s
}

// sweep drops the entries of namespaces that were slow and to which nobody has written since. The lock is held.
func (p *Pool) sweep() {
	if p.clock.Since(p.swept) < slowLasts {
		return
	}
	p.swept = p.clock.Now()
	for namespace, s := range p.namespaces {
		p.dropIfUnused(namespace, s)
	}
}

// dropIfUnused drops the entry of a namespace if it is no longer needed.
func (p *Pool) dropIfUnused(namespace string, s *share) {
	if len(s.inFlight) == 0 && len(s.workers) == 0 && len(s.queues) == 0 && !p.wasSlow(s) {
		delete(p.namespaces, namespace)
	}
}
