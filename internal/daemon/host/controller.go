// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Waker has the object of the node reconciled again, for what changes on the node and not in the cluster. It is safe for concurrent use.
type Waker struct {
	object client.Object
	events chan event.GenericEvent
}

// NewWaker returns a Waker for an object of the kind that has the name of the node.
func NewWaker(kind client.Object, node string) *Waker {
	kind.SetName(node)
	return &Waker{object: kind, events: make(chan event.GenericEvent, 1)}
}

// Wake has the object reconciled soon. It never waits: a call that nobody has acted upon yet stands for all others.
func (w *Waker) Wake() {
	select {
	case w.events <- event.GenericEvent{Object: w.object}:
	default:
	}
}

// Woken is readable after a call of Wake that nobody has acted upon yet.
func (w *Waker) Woken() <-chan event.GenericEvent { return w.events }

// AddController adds a controller for the object of the node that w wakes. It tells begin for how long the daemon lives, and reconciles the object then,
// whatever the cache had before.
func (h Host) AddController(name string, w *Waker, options controller.Options, begin func(lifetime context.Context)) error {
	live := func(ctx context.Context) error {
		begin(ctx)
		w.Wake()
		<-ctx.Done()
		return nil
	}
	if err := h.Manager.Add(manager.RunnableFunc(live)); err != nil {
		return fmt.Errorf("adding %s: %w", name, err)
	}
	options.MaxConcurrentReconciles = 1
	c, err := controller.New(name, h.Manager, options)
	if err != nil {
		return fmt.Errorf("adding %s: %w", name, err)
	}
	if err := c.Watch(source.Kind(h.Manager.GetCache(), w.object, &handler.EnqueueRequestForObject{})); err != nil {
		return fmt.Errorf("watching the object of the node for %s: %w", name, err)
	}
	if err := c.Watch(source.Channel(w.events, &handler.EnqueueRequestForObject{})); err != nil {
		return fmt.Errorf("watching the node for %s: %w", name, err)
	}
	return nil
}
