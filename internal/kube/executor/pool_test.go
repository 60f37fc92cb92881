// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// begin begins a write that must have room at once.
func begin(t *testing.T, p *Pool, namespace string) func() {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	end, err := p.Begin(ctx, namespace)
	if err != nil {
		t.Fatalf("no room for namespace %s: %v", namespace, err)
	}
	return end
}

// full says that a write of the namespace has to wait.
func full(t *testing.T, p *Pool, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if end, err := p.Begin(ctx, namespace); err == nil {
		end()
		t.Errorf("room for another write of namespace %s", namespace)
	} else if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestPoolSharesWrites(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	p := NewPool(8, c)
	var ends []func()
	for range 6 {
		ends = append(ends, begin(t, p, "a"))
	}
	full(t, p, "a")
	ends = append(ends, begin(t, p, "b"), begin(t, p, "b"))
	full(t, p, "c")
	ends[0]()
	begin(t, p, "c")()
	for _, end := range ends[1:] {
		end()
	}
	if len(p.namespaces) != 0 || len(p.waiting) != 0 {
		t.Errorf("left over: %v, %v", p.namespaces, p.waiting)
	}
}

func TestPoolConfinesASlowNamespace(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	p := NewPool(8, c)
	var ends []func()
	for range 6 {
		ends = append(ends, begin(t, p, "a"))
	}
	c.Step(slow)
	full(t, p, "a")
	// What hangs no longer counts against the others.
	var others []func()
	for range 6 {
		others = append(others, begin(t, p, "b"))
	}
	for _, end := range others {
		end()
	}
	for _, end := range ends {
		end()
	}
	// The last write was slow: one at a time, until one is fast.
	end := begin(t, p, "a")
	full(t, p, "a")
	end()
	first, second := begin(t, p, "a"), begin(t, p, "a")
	first()
	second()
}

func TestPoolSharesWorkers(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	p := NewPool(8, c)
	enter := func(namespace string, want bool) func() {
		t.Helper()
		leave, ok := p.Enter("x", 3, namespace)
		if ok != want {
			t.Errorf("namespace %s gets a worker: %v, want %v", namespace, ok, want)
		}
		return leave
	}
	first := enter("a", true)
	enter("a", true)
	enter("a", false)
	enter("b", true)
	first()
	enter("a", true)

	end := begin(t, p, "c")
	c.Step(slow)
	leave := enter("c", true)
	enter("c", false)
	leave()
	end()
	enter("c", true)
	enter("c", false)
	if _, ok := p.Enter("y", 1, "d"); !ok {
		t.Error("the only worker of a controller is given to nobody")
	}
}
