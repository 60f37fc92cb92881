// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// slow is how long a write may take before its namespace counts as slow.
const slow = 2 * time.Second

// Pool shares out what namespaces compete for: writes in flight, and the workers of a controller. It is safe for concurrent use.
//
// A namespace gets at most three quarters of the writes, so that another one always finds room. It gets one alone while it is slow:
// its last write took longer than two seconds, or one in flight has. Writes that have been in flight for that long no longer count
// against the pool; their namespace pays for them, not the others.
type Pool struct {
	writes int
	clock  clock.WithTicker

	mu         sync.Mutex
	namespaces map[string]*share
	waiting    []*waiter
}

// share is what one namespace holds.
type share struct {
	// began are the times at which the writes in flight began.
	began map[*ticket]time.Time
	// lastSlow says that the last write took too long.
	lastSlow bool
	// workers is how many workers it holds, by controller.
	workers map[string]int
	// lines are those that wait for a worker, by controller.
	lines map[string]*line
}

// line are workloads that wait for a worker. Those in order that have no wake have been served meanwhile.
type line struct {
	order []types.NamespacedName
	wake  map[types.NamespacedName]func()
}

type ticket struct{ namespace string }

type waiter struct {
	ticket *ticket
	ready  chan struct{}
}

// NewPool returns a Pool for so many writes in flight. A nil clock is the real one.
func NewPool(writes int, c clock.WithTicker) *Pool {
	if c == nil {
		c = clock.RealClock{}
	}
	return &Pool{writes: max(writes, 2), clock: c, namespaces: map[string]*share{}}
}

// Begin waits until the namespace may begin another write, first come, first served among those that may. The returned function
// ends the write. The error is that of ctx.
func (p *Pool) Begin(ctx context.Context, namespace string) (end func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &waiter{ticket: &ticket{namespace: namespace}, ready: make(chan struct{})}
	p.mu.Lock()
	p.waiting = append(p.waiting, w)
	p.admit()
	p.mu.Unlock()

	// Time alone may make room: a write in flight stops counting when it gets slow.
	tick := p.clock.NewTicker(slow / 4)
	defer tick.Stop()
	for {
		select {
		case <-w.ready:
			return func() { p.end(w.ticket) }, nil
		case <-ctx.Done():
			if p.withdraw(w) {
				return nil, ctx.Err()
			}
			return func() { p.end(w.ticket) }, nil
		case <-tick.C():
			p.mu.Lock()
			p.admit()
			p.mu.Unlock()
		}
	}
}

// Enter takes one of the workers of a controller for a workload, if its namespace may have another one. A namespace leaves one worker to
// the others, and while it is slow it holds only one.
//
// Whoever is refused stands in line and is told by wake when somebody has left: hundreds of workloads that asked again and again would
// keep the workers busy with that alone. To be woken is no promise, and nobody is woken when time alone makes room, so it should also
// come back some time later.
func (p *Pool) Enter(controller string, workers int, name types.NamespacedName, wake func()) (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.share(name.Namespace)
	l := s.lines[controller]
	if p.room(s, controller, workers) <= 0 {
		if l == nil {
			l = &line{wake: map[types.NamespacedName]func(){}}
			s.lines[controller] = l
		}
		if l.wake[name] == nil {
			l.order = append(l.order, name)
		}
		l.wake[name] = wake
		return nil, false
	}
	if l != nil {
		delete(l.wake, name)
	}
	s.workers[controller]++
	return func() { p.leave(s, controller, workers, name.Namespace) }, true
}

// room is how many more workers of a controller a namespace may have. The lock is held.
func (p *Pool) room(s *share, controller string, workers int) int {
	limit := max(workers-1, 1)
	if p.isSlow(s) {
		limit = 1
	}
	return limit - s.workers[controller]
}

// leave gives a worker back and wakes as many as there is room for.
func (p *Pool) leave(s *share, controller string, workers int, namespace string) {
	p.mu.Lock()
	if s.workers[controller]--; s.workers[controller] == 0 {
		delete(s.workers, controller)
	}
	var wake []func()
	if l := s.lines[controller]; l != nil {
		if wake = l.take(p.room(s, controller, workers)); len(l.wake) == 0 {
			delete(s.lines, controller)
		}
	}
	p.tidy(namespace, s)
	p.mu.Unlock()
	for _, wake := range wake {
		wake()
	}
}

// take takes the first n out of the line.
func (l *line) take(n int) []func() {
	var wake []func()
	for len(l.order) > 0 && len(wake) < n {
		first := l.order[0]
		l.order = l.order[1:]
		if l.wake[first] != nil {
			wake = append(wake, l.wake[first])
			delete(l.wake, first)
		}
	}
	return wake
}

// admit lets in those that wait and may begin, in the order in which they came. The lock is held.
func (p *Pool) admit() {
	counted := 0
	for _, s := range p.namespaces {
		counted += p.counted(s)
	}
	stillWaiting := p.waiting[:0]
	for _, w := range p.waiting {
		s := p.share(w.ticket.namespace)
		limit := p.writes - p.writes/4
		inFlight := p.counted(s)
		if p.isSlow(s) {
			limit, inFlight = 1, len(s.began)
		}
		if counted >= p.writes || inFlight >= limit {
			p.tidy(w.ticket.namespace, s)
			stillWaiting = append(stillWaiting, w)
			continue
		}
		counted++
		s.began[w.ticket] = p.clock.Now()
		close(w.ready)
	}
	clear(p.waiting[len(stillWaiting):])
	p.waiting = stillWaiting
}

// counted is how many writes of a namespace count against the pool. The lock is held.
func (p *Pool) counted(s *share) int {
	n := 0
	for _, began := range s.began {
		if p.clock.Since(began) < slow {
			n++
		}
	}
	return n
}

// isSlow says whether the namespace gets only one of everything. The lock is held.
func (p *Pool) isSlow(s *share) bool {
	return s.lastSlow || p.counted(s) < len(s.began)
}

func (p *Pool) end(t *ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.share(t.namespace)
	s.lastSlow = p.clock.Since(s.began[t]) >= slow
	delete(s.began, t)
	p.tidy(t.namespace, s)
	p.admit()
}

// withdraw takes back a wish that was not granted. It returns false when it was granted after all.
func (p *Pool) withdraw(w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.waiting {
		if other == w {
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
			return true
		}
	}
	return false
}

func (p *Pool) share(namespace string) *share {
	s, ok := p.namespaces[namespace]
	if !ok {
		s = &share{began: map[*ticket]time.Time{}, workers: map[string]int{}, lines: map[string]*line{}}
		p.namespaces[namespace] = s
	}
	return s
}

// tidy drops what says nothing any more.
func (p *Pool) tidy(namespace string, s *share) {
	if len(s.began) == 0 && len(s.workers) == 0 && len(s.lines) == 0 && !s.lastSlow {
		delete(p.namespaces, namespace)
	}
}
