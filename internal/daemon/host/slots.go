// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"sync"
)

// Slots limit what runs at the same time. All namespaces share some of them, and each has some of its own: what hangs in
// one namespace never holds up another.
type Slots struct {
	shared chan struct{}
	each   int

	mu  sync.Mutex
	own map[string]chan struct{}
}

// NewSlots returns slots: how many are shared, and how many each namespace has.
func NewSlots(shared, each int) *Slots {
	return &Slots{shared: make(chan struct{}, shared), each: each, own: map[string]chan struct{}{}}
}

// Take waits for a slot, the namespace's own or a shared one. It returns the release; nil if ctx has ended.
func (s *Slots) Take(ctx context.Context, namespace string) (release func()) {
	own := s.of(namespace)
	taken := own
	select {
	case own <- struct{}{}:
	default:
		select {
		case own <- struct{}{}:
		case s.shared <- struct{}{}:
			taken = s.shared
		case <-ctx.Done():
			return nil
		}
	}
	return func() { <-taken }
}

func (s *Slots) of(namespace string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own[namespace] == nil {
		s.own[namespace] = make(chan struct{}, s.each)
	}
	return s.own[namespace]
}
