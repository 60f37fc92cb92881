// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package peers bounds what requests of one client may use together, so that nobody uses up what all of them share.
package peers

import (
	"context"
	"net"
	"net/http"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Limits are bounds, one for each client that has requests. Clients are told apart by their address.
type Limits struct {
	most  int64
	mutex sync.Mutex
	peers map[string]*peer
}

type peer struct {
	*semaphore.Weighted
	requests int
}

// New returns bounds of most bytes.
func New(most int64) *Limits { return &Limits{most: most, peers: map[string]*peer{}} }

// TryAcquire takes so many bytes for a request. Release gives them back; it is nil when its client has too many.
func (l *Limits) TryAcquire(r *http.Request, bytes int64) (release func()) {
	return l.take(r, bytes, func(p *peer) bool { return p.TryAcquire(bytes) })
}

// Acquire waits for so many bytes until ctx ends, and then returns nil.
func (l *Limits) Acquire(ctx context.Context, r *http.Request, bytes int64) (release func()) {
	return l.take(r, bytes, func(p *peer) bool { return p.Acquire(ctx, bytes) == nil })
}

func (l *Limits) take(r *http.Request, bytes int64, acquire func(*peer) bool) func() {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	l.mutex.Lock()
	of := l.peers[host]
	if of == nil {
		of = &peer{Weighted: semaphore.NewWeighted(l.most)}
		l.peers[host] = of
	}
	of.requests++
	l.mutex.Unlock()
	leave := func() {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		if of.requests--; of.requests == 0 {
			delete(l.peers, host)
		}
	}
	if !acquire(of) {
		leave()
		return nil
	}
	return func() {
		of.Release(bytes)
		leave()
	}
}
