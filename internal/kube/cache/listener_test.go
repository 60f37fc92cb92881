// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
)

// countedInformer counts its listeners.
type countedInformer struct {
	toolscache.SharedIndexInformer
	listeners int
}

func (c *countedInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	c.listeners++
	return c.SharedIndexInformer.AddEventHandler(h)
}

// oneInformer is a cache with the informer of pods alone.
type oneInformer struct {
	ctrlcache.Cache
	informer ctrlcache.Informer
}

func (o oneInformer) GetInformer(context.Context, client.Object, ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	return o.informer, nil
}

// seen are the events that a handler was told of, as what happened and the name.
type seen struct {
	mu     sync.Mutex
	events []string
}

func (s *seen) note(what string, object any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, what+" "+object.(*corev1.Pod).Name)
}

func (s *seen) OnAdd(object any, _ bool)   { s.note("add", object) }
func (s *seen) OnUpdate(_ any, object any) { s.note("update", object) }
func (s *seen) OnDelete(object any)        { s.note("delete", object) }
func (s *seen) all() []string              { s.mu.Lock(); defer s.mu.Unlock(); return slices.Clone(s.events) }
func (s *seen) await(t *testing.T, event string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !slices.Contains(s.all(), event); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not told of %q, but of %q", event, s.all())
		}
	}
}

func TestHandlersOfPodsShareOneListener(t *testing.T) {
	server := fcache.NewFakeControllerSource()
	defer server.Shutdown()
	pod := func(name, label string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name), Labels: map[string]string{"l": label}}}
	}
	server.Add(pod("first", ""))
	informer := &countedInformer{SharedIndexInformer: toolscache.NewSharedIndexInformer(server, &corev1.Pod{}, 0, nil)}
	shared := cache.WithSharedPodListener(oneInformer{informer: informer})
	join := func(s *seen) (ctrlcache.Informer, toolscache.ResourceEventHandlerRegistration) {
		t.Helper()
		pods, err := shared.GetInformer(t.Context(), &corev1.Pod{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := pods.AddEventHandlerWithOptions(s, toolscache.HandlerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return pods, r
	}
	one, two, late, gone := &seen{}, &seen{}, &seen{}, &seen{}
	_, registered := join(one)
	join(two)
	go informer.Run(t.Context().Done())
	if !toolscache.WaitForCacheSync(t.Context().Done(), registered.HasSynced) {
		t.Fatal("not synced")
	}
	for _, s := range []*seen{one, two} {
		s.await(t, "add first")
	}
	_, lateRegistered := join(late)
	if !lateRegistered.HasSynced() || !slices.Equal(late.all(), []string{"add first"}) {
		t.Errorf("a handler that joins late is told of %q, want of what is there", late.all())
	}
	pods, left := join(gone)
	if err := pods.RemoveEventHandler(left); err != nil {
		t.Fatal(err)
	}
	server.Add(pod("second", ""))
	server.Modify(pod("first", "changed"))
	server.Delete(pod("second", ""))
	want := []string{"add first", "add second", "update first", "delete second"}
	for _, s := range []*seen{one, two, late} {
		s.await(t, "delete second")
		if got := s.all(); !slices.Equal(got, want) {
			t.Errorf("told of %q, want %q", got, want)
		}
	}
	if got := gone.all(); !slices.Equal(got, []string{"add first"}) {
		t.Errorf("a handler that was removed is told of %q", got)
	}
	if informer.listeners != 1 {
		t.Errorf("%d listeners, want 1", informer.listeners)
	}
	if other, err := shared.GetInformer(t.Context(), &corev1.Node{}); err != nil || other != ctrlcache.Informer(informer) {
		t.Errorf("the informer of nodes is %T (%v), want it as it is", other, err)
	}
}
