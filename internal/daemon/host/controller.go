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

// Trigger reconciles the node's object after changes on the node. It is safe for concurrent
// use.
type Trigger struct {
	object client.Object
	events chan event.GenericEvent
}

// NewTrigger returns a Trigger for the object of the kind with the node's name.
func NewTrigger(kind client.Object, node string) *Trigger {
	kind.SetName(node)
	return &Trigger{object: kind, events: make(chan event.GenericEvent, 1)}
}

// Enqueue adds the object to the queue. It never blocks: calls before an earlier event is
// received add no other.
func (t *Trigger) Enqueue() {
	select {
	case t.events <- event.GenericEvent{Object: t.object}:
	default:
	}
}

// Events has an event after a call of Enqueue, until it is received.
func (t *Trigger) Events() <-chan event.GenericEvent { return t.events }

// AddController adds a controller for the object t enqueues. It gives begin the daemon's
// lifetime, and then reconciles the object, whatever was cached before.
func (h Host) AddController(name string, t *Trigger, options controller.Options, begin func(lifetime context.Context)) error {
	live := func(ctx context.Context) error {
		begin(ctx)
		t.Enqueue()
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
	if err := c.Watch(source.Kind(h.Manager.GetCache(), t.object, &handler.EnqueueRequestForObject{})); err != nil {
		return fmt.Errorf("watching the object of the node for %s: %w", name, err)
	}
	if err := c.Watch(source.Channel(t.events, &handler.EnqueueRequestForObject{})); err != nil {
		return fmt.Errorf("watching the node for %s: %w", name, err)
	}
	return nil
}
