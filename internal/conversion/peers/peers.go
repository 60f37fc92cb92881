// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package peers bounds the shared resources requests of one client may use together.
package peers

import (
	"context"
	"net"
	"net/http"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Limits bound the use of all requests together and of each client. A client is an address.
type Limits struct {
	each int64
	all  *semaphore.Weighted

	mutex sync.Mutex
	peers map[string]*peer
}

type peer struct {
	*semaphore.Weighted
	requests int
}

// New returns bounds of so many bytes for each client, and for all.
func New(each, all int64) *Limits {
	return &Limits{each: each, all: semaphore.NewWeighted(all), peers: map[string]*peer{}}
}

// TryAcquire takes so many bytes for a request. Release gives them back; it is nil when there is no room.
func (l *Limits) TryAcquire(r *http.Request, bytes int64) (release func()) {
	return l.take(r, bytes, func(s *semaphore.Weighted) bool { return s.TryAcquire(bytes) })
}

// Acquire waits for so many bytes until ctx ends, and then returns nil.
func (l *Limits) Acquire(ctx context.Context, r *http.Request, bytes int64) (release func()) {
	return l.take(r, bytes, func(s *semaphore.Weighted) bool { return s.Acquire(ctx, bytes) == nil })
}

func (l *Limits) take(r *http.Request, bytes int64, acquire func(*semaphore.Weighted) bool) (release func()) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	of := l.enter(host)
	if !acquire(of.Weighted) {
		l.leave(host, of)
		return nil
	}
	own := func() {
		of.Release(bytes)
		l.leave(host, of)
	}
	if !acquire(l.all) {
		own()
		return nil
	}
	return func() {
		l.all.Release(bytes)
		own()
	}
}

func (l *Limits) enter(host string) *peer {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	of := l.peers[host]
	if of == nil {
		of = &peer{Weighted: semaphore.NewWeighted(l.each)}
		l.peers[host] = of
	}
	of.requests++
	return of
}

func (l *Limits) leave(host string, of *peer) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if of.requests--; of.requests == 0 {
		delete(l.peers, host)
	}
}
