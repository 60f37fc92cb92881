// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// begin begins a write; there must be room.
func begin(t *testing.T, p *Pool, namespace string) func() {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	end, ok := p.Begin(ctx, namespace)
	if !ok {
		t.Fatalf("no room for namespace %s", namespace)
	}
	return end
}

// full: a write of the namespace has to wait.
func full(t *testing.T, p *Pool, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if end, ok := p.Begin(ctx, namespace); ok {
		end()
		t.Errorf("room for another write of namespace %s", namespace)
	}
}

// empty: nothing is left of idle namespaces.
func empty(t *testing.T, p *Pool) {
	t.Helper()
	if len(p.shares)+len(p.lines) != 0 {
		t.Errorf("left over: %v, %v", p.shares, p.lines)
	}
}

func TestPoolGivesPlacesInTheOrderOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(2)
		first, second := begin(t, p, "a"), begin(t, p, "b")
		var order []string
		for _, namespace := range []string{"c", "d"} {
			go func() {
				if end, ok := p.Begin(t.Context(), namespace); ok {
					order = append(order, namespace)
					time.Sleep(time.Second)
					end()
				}
			}()
			synctest.Wait()
		}
		first()
		synctest.Wait()
		if len(order) != 1 {
			t.Errorf("one place is free, and %v have one", order)
		}
		time.Sleep(2500 * time.Millisecond)
		if diff := cmp.Diff([]string{"c", "d"}, order); diff != "" {
			t.Errorf("who has had a place (-want +got):\n%s", diff)
		}
		second()
		empty(t, p)
	})
}

func TestPoolSharesWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(8)
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
		empty(t, p)
	})
}

func TestPoolConfinesASlowNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(8)
		var ends []func()
		for range 6 {
			ends = append(ends, begin(t, p, "a"))
		}
		time.Sleep(slowAfter + time.Millisecond)
		full(t, p, "a")
		// Hanging writes no longer count against the others.
		var others []func()
		for range 6 {
			others = append(others, begin(t, p, "b"))
		}
		for _, end := range slices.Concat(others, ends) {
			end()
		}
		// The last write was slow: one at a time, until one is fast.
		end := begin(t, p, "a")
		full(t, p, "a")
		end()
		first, second := begin(t, p, "a"), begin(t, p, "a")
		first()
		second()
	})
}

// After a slow last write a namespace's entry stayed for ever, even when the namespace was
// deleted.
func TestPoolForgetsThatANamespaceWasSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(8)
		slow := func() {
			end := begin(t, p, "gone")
			full := func() { full(t, p, "gone") }
			time.Sleep(slowAfter + time.Millisecond)
			full()
			end()
			empty(t, p)
		}
		slow()
		time.Sleep(slowLasts / 2)
		slow()
		time.Sleep(slowLasts)
		first, second := begin(t, p, "gone"), begin(t, p, "gone")
		first()
		second()
	})
}

func TestPoolSharesWorkers(t *testing.T) {
	synctest.Test(t, poolSharesWorkers)
}

func poolSharesWorkers(t *testing.T) {
	p := NewPool(8)
	enter := func(namespace string, want bool) func() {
		t.Helper()
		leave, ok := p.Enter("x", 3, types.NamespacedName{Namespace: namespace, Name: "web"}, func() {})
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
	time.Sleep(slowAfter + time.Millisecond)
	leave := enter("c", true)
	enter("c", false)
	leave()
	end()
	enter("c", true)
	enter("c", false)
	for range 3 {
		enter("", true) // cluster-scoped owners
	}
	enter("", false)
	if _, ok := p.Enter("y", 1, types.NamespacedName{Namespace: "d"}, func() {}); !ok {
		t.Error("the only worker of a controller is given to nobody")
	}
}

func TestPoolNotifiesInTheOrderOfTheQueue(t *testing.T) {
	p := NewPool(8)
	var notified []string
	leave := map[string]func(){}
	enter := func(name string) bool {
		l, ok := p.Enter("x", 3, types.NamespacedName{Namespace: "a", Name: name}, func() { notified = append(notified, name) })
		leave[name] = l
		return ok
	}
	for name, want := range map[string]bool{"1": true, "2": true} {
		if enter(name) != want {
			t.Fatalf("%s enters: %v", name, !want)
		}
	}
	for _, name := range []string{"3", "4", "5", "3"} {
		if enter(name) {
			t.Fatalf("%s enters", name)
		}
	}
	leave["1"]()
	if diff := cmp.Diff([]string{"3"}, notified); diff != "" {
		t.Errorf("one worker is free (-want +got):\n%s", diff)
	}
	// Somebody else was faster, whom an event has brought. The next one notified is the one who waits longest.
	if !enter("5") || enter("3") {
		t.Error("the free worker goes to 5, and 3 is in the queue again")
	}
	leave["2"]()
	leave["5"]()
	if diff := cmp.Diff([]string{"3", "4", "3"}, notified); diff != "" {
		t.Errorf("two more are free (-want +got):\n%s", diff)
	}
	if !enter("3") || !enter("4") {
		t.Error("who is notified cannot enter")
	}
	leave["3"]()
	leave["4"]()
	if len(p.shares)+len(p.lines) != 0 {
		t.Errorf("left over: %v, %v", p.shares, p.lines)
	}
}

// The queue of a namespace deleted with all its waiting objects was kept for ever.
func TestPoolForgetsWhoIsGone(t *testing.T) {
	p := NewPool(8)
	var notified []string
	enter := func(name string) (leave func()) {
		leave, _ = p.Enter("x", 2, types.NamespacedName{Namespace: "a", Name: name}, func() { notified = append(notified, name) })
		return leave
	}
	gone := func(name string) { p.Forget("x", 2, types.NamespacedName{Namespace: "a", Name: name}) }
	leave := enter("1")
	for _, name := range []string{"2", "3", "4"} {
		if enter(name) != nil {
			t.Fatalf("%s enters", name)
		}
	}
	gone("3") // while it waits
	leave()
	gone("2") // after it was notified: its worker is that of the next one
	if diff := cmp.Diff([]string{"2", "4"}, notified); diff != "" {
		t.Errorf("notified (-want +got):\n%s", diff)
	}
	gone("4")
	gone("5")
	if len(p.shares)+len(p.lines) != 0 {
		t.Errorf("left over: %v, %v", p.shares, p.lines)
	}
	leave = enter("6")
	enter("7")
	enter("8")
	leave() // notifies 7
	gone("8")
	gone("7")
	if len(p.shares)+len(p.lines) != 0 {
		t.Errorf("left over: %v, %v", p.shares, p.lines)
	}
}
