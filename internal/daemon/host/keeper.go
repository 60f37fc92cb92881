// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// Settling is for how long changes are gathered before a status is written.
	Settling = 200 * time.Millisecond
	// burst is how many writes of a status may follow each other, spacing how far apart others are.
	burst   = 5
	spacing = 2 * time.Second
)

// Keeper keeps the object with the node's name: a feature reads there what is wanted, and writes what has come of it.
type Keeper struct {
	Host
	// Client reads the objects of the node and writes.
	Client client.Client
	// Writes limits those of the status.
	Writes *rate.Limiter
	object client.Object
	// Changed has an event after a call of Enqueue, until it is received.
	Changed chan event.GenericEvent
}

// NewKeeper returns the keeper of the object of a kind.
func NewKeeper(h Host, c client.Client, kind client.Object) *Keeper {
	kind.SetName(h.Node)
	return &Keeper{
		Host: h, Client: c, Writes: rate.NewLimiter(rate.Every(spacing), burst), object: kind, Changed: make(chan event.GenericEvent, 1),
	}
}

// Enqueue adds the object to the queue after changes on the node. It never blocks: calls before an earlier event is
// received add no other.
func (k *Keeper) Enqueue() {
	select {
	case k.Changed <- event.GenericEvent{Object: k.object}:
	default:
	}
}

// Start adds the controller of the object.
func (k *Keeper) Start(name string, r reconcile.Reconciler) error {
	return k.AddController(name, 1, r,
		source.Kind(k.Manager.GetCache(), k.object, &handler.EnqueueRequestForObject{}),
		source.Channel(k.Changed, &handler.EnqueueRequestForObject{}))
}

// Read reads the object. It is not there when it is being deleted, either.
func (k *Keeper) Read(ctx context.Context, into client.Object) (there bool, err error) {
	err = k.Client.Get(ctx, client.ObjectKey{Name: k.Node}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the object of the node: %w", err)
	}
	return into.GetDeletionTimestamp() == nil, nil
}

// Write writes fields of the status, tied to the version they were decided on. When it is too early, or there is a newer version, it says
// when to come back.
func (k *Keeper) Write(ctx context.Context, stored client.Object, status map[string]any) (written bool, result reconcile.Result, err error) {
	now := k.Clock.Now()
	turn := k.Writes.ReserveN(now, 1)
	if wait := turn.DelayFrom(now); wait > 0 {
		turn.CancelAt(now)
		return false, reconcile.Result{RequeueAfter: wait}, nil
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": stored.GetUID(), "resourceVersion": stored.GetResourceVersion()}, "status": status,
	})
	if err != nil {
		return false, reconcile.Result{}, fmt.Errorf("rendering the status: %w", err)
	}
	err = k.Client.Status().Patch(ctx, stored, client.RawPatch(types.MergePatchType, body))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false, reconcile.Result{RequeueAfter: Settling}, nil
	}
	if err != nil {
		return false, reconcile.Result{}, fmt.Errorf("writing the status: %w", err)
	}
	ctrl.LoggerFrom(ctx).V(1).Info("Status written")
	return true, reconcile.Result{}, nil
}
