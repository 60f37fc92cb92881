// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// New is the [ctrlcache.New] of a manager whose controllers share one listener for pods. An informer runs two goroutines for each of its listeners
// and wakes both for each event; a dozen controllers listen to pods, and most of them have nothing to do with most pods. Of pods it reads all of the
// cluster, whatever the options select, without the fields that no kind reads.
func New(config *rest.Config, options ctrlcache.Options) (ctrlcache.Cache, error) {
	pods, err := podLists(config, options.Scheme)
	if err != nil {
		return nil, err
	}
	newInformer := options.NewInformer
	if newInformer == nil {
		newInformer = toolscache.NewSharedIndexInformer
	}
	options.NewInformer = func(
		lists toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		if _, isPod := object.(*corev1.Pod); isPod {
			lists = pods
		}
		return newInformer(lists, object, resync, indexers)
	}
	c, err := ctrlcache.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("creating the cache: %w", err)
	}
	return WithSharedPodListener(c), nil
}

// WithSharedPodListener returns c, but what listens to its pods shares one listener.
func WithSharedPodListener(c ctrlcache.Cache) ctrlcache.Cache {
	return &sharing{Cache: c, pods: &listener{}}
}

type sharing struct {
	ctrlcache.Cache
	pods *listener
}

// GetInformer implements cache.Cache.
func (s *sharing) GetInformer(ctx context.Context, object client.Object, options ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	informer, err := s.Cache.GetInformer(ctx, object, options...)
	if err != nil {
		return nil, err
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if _, isPod := object.(*corev1.Pod); !isPod || !ok {
		return informer, nil
	}
	return &podInformer{SharedIndexInformer: shared, listener: s.pods}, nil
}

// podInformer is the informer of pods, with one listener for all that use it.
type podInformer struct {
	toolscache.SharedIndexInformer
	listener *listener
}

// AddEventHandler implements cache.Informer.
func (p *podInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return p.listener.join(p.SharedIndexInformer, h)
}

// AddEventHandlerWithOptions implements cache.Informer. Options that ask for a resync of its own are met by a listener of its own.
func (p *podInformer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, options toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	if options.ResyncPeriod != nil {
		return p.SharedIndexInformer.AddEventHandlerWithOptions(h, options)
	}
	return p.listener.join(p.SharedIndexInformer, h)
}

// RemoveEventHandler implements cache.Informer.
func (p *podInformer) RemoveEventHandler(of toolscache.ResourceEventHandlerRegistration) error {
	if r, ok := of.(registration); ok {
		p.listener.leave(r.handler)
		return nil
	}
	return p.SharedIndexInformer.RemoveEventHandler(of)
}

// registration is that of one handler of the shared listener.
type registration struct {
	toolscache.ResourceEventHandlerRegistration
	handler *joined
}

// listener passes each event to all handlers, one after the other. They must not block.
type listener struct {
	mu           sync.Mutex
	registration toolscache.ResourceEventHandlerRegistration
	handlers     []*joined
}

// joined is a handler that joined the listener.
type joined struct {
	toolscache.ResourceEventHandler
}

// join adds a handler. It gets the objects that the informer has now, and then their events, as a handler of the informer does. An event that the
// listener has not passed on yet reaches it twice, and it may get the deletion of an object that it never saw.
func (l *listener) join(informer toolscache.SharedIndexInformer, h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.registration == nil {
		r, err := informer.AddEventHandler(l)
		if err != nil {
			return nil, fmt.Errorf("listening to pods: %w", err)
		}
		l.registration = r
	} else {
		for _, object := range informer.GetStore().List() {
			h.OnAdd(object, true)
		}
	}
	handler := &joined{h}
	l.handlers = append(l.handlers, handler)
	return registration{l.registration, handler}, nil
}

// leave removes a handler.
func (l *listener) leave(handler *joined) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handlers = slices.DeleteFunc(l.handlers, func(other *joined) bool { return other == handler })
}

// OnAdd implements cache.ResourceEventHandler.
func (l *listener) OnAdd(object any, initial bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.handlers {
		h.OnAdd(object, initial)
	}
}

// OnUpdate implements cache.ResourceEventHandler.
func (l *listener) OnUpdate(before, after any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.handlers {
		h.OnUpdate(before, after)
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (l *listener) OnDelete(object any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.handlers {
		h.OnDelete(object)
	}
}
