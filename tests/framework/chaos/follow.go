// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Follow calls see for every change of a list's objects in the namespace, in the API
// server's order, past the proxy, until the scenario's objects are deleted at the end. A
// fault from see fails the test.
func Follow(w *World, list client.ObjectList, see func(object client.Object, deleted bool) error) {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.T.Context()))
	if err := w.Client.List(ctx, list, client.InNamespace(w.Name)); err != nil {
		cancel()
		w.T.Fatalf("following %T: %v", list, err)
	}
	stream, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return w.Client.Watch(ctx, list, &client.ListOptions{Namespace: w.Name, Raw: &options})
		},
	})
	if err != nil {
		cancel()
		w.T.Fatalf("following %T: %v", list, err)
	}
	var faults []error
	var running sync.WaitGroup
	began := time.Now()
	running.Go(func() {
		for event := range stream.ResultChan() {
			object, is := event.Object.(client.Object)
			if !is {
				if ctx.Err() == nil {
					faults = append(faults, fmt.Errorf("the watch of %T ended: %v", list, event.Object))
				}
				return
			}
			if w.clearing.Load() {
				return
			}
			if err := see(object, event.Type == watch.Deleted); err != nil {
				faults = append(faults, fmt.Errorf("after %s: %w", time.Since(began).Round(time.Millisecond), err))
			}
		}
	})
	w.T.Cleanup(func() {
		cancel()
		stream.Stop()
		running.Wait()
		for _, fault := range faults[:min(len(faults), 20)] {
			w.T.Errorf("a limit was broken: %v", fault)
		}
	})
}
