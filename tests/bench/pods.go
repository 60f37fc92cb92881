// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// pods follows the pods of a namespace.
type pods struct {
	mu    sync.Mutex
	known map[string]*corev1.Pod
	ready map[string]int // by image
	// waiting has one condition for each pod, so an event costs the same with any number of
	// pods.
	waiting map[string]condition
}

type condition struct {
	holds func(*corev1.Pod) bool
	met   chan struct{}
}

// follow returns when the present pods are known.
func follow(ctx context.Context, client kubernetes.Interface, namespace string) (*pods, error) {
	p := &pods{known: map[string]*corev1.Pod{}, ready: map[string]int{}, waiting: map[string]condition{}}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.saw(object, false) },
		UpdateFunc: func(_, object any) { p.saw(object, false) },
		DeleteFunc: func(object any) { p.saw(object, true) },
	})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("listing pods of namespace %s: %w", namespace, context.Cause(ctx))
	}
	return p, nil
}

func (p *pods) saw(object any, deleted bool) {
	if last, is := object.(cache.DeletedFinalStateUnknown); is {
		object = last.Obj
	}
	pod, is := object.(*corev1.Pod)
	if !is {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if before := p.known[pod.Name]; before != nil && isReady(before) {
		p.ready[imageOf(before)]--
	}
	delete(p.known, pod.Name)
	if deleted {
		return
	}
	p.known[pod.Name] = pod
	if isReady(pod) {
		p.ready[imageOf(pod)]++
	}
	if c, waits := p.waiting[pod.Name]; waits && c.holds(pod) {
		delete(p.waiting, pod.Name)
		close(c.met)
	}
}

// allReady returns when there are n pods, all ready with the image.
func (p *pods) allReady(ctx context.Context, n int, image string) error {
	for {
		p.mu.Lock()
		known, ready := len(p.known), p.ready[image]
		p.mu.Unlock()
		if known == n && ready == n {
			return nil
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("%d pods, %d of them ready with %q, not %d: %w", known, ready, image, n, err)
		}
	}
}

// await returns when the condition holds for a pod.
func (p *pods) await(ctx context.Context, name string, holds func(*corev1.Pod) bool) error {
	p.mu.Lock()
	if pod := p.known[name]; pod != nil && holds(pod) {
		p.mu.Unlock()
		return nil
	}
	c := condition{holds: holds, met: make(chan struct{})}
	p.waiting[name] = c
	p.mu.Unlock()
	select {
	case <-c.met:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *pods) get(name string) *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[name]
}

func (p *pods) names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := make([]string, 0, len(p.known))
	for name := range p.known {
		names = append(names, name)
	}
	return names
}

func imageOf(pod *corev1.Pod) string { return pod.Spec.Containers[0].Image }

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
