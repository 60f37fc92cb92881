// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podspread

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/kube/listed"
	"github.com/kruise-operator/kruise-operator/internal/webhook/newpods"
)

// tries is how often a write is tried again after another replica's.
const tries = 12

// asked is one pod in wait for its subset.
type asked struct {
	pod   *corev1.Pod
	owner metav1.OwnerReference
	dry   bool

	// The answer, once done is closed.
	spread *spread.Spread
	at     int
	uid    string
	err    error
	done   chan struct{}
}

// queue are the pods of one WorkloadSpread that wait.
type queue struct {
	// requests and waiting belong to the Handler's mutex.
	requests int
	waiting  []*asked
	// turn is held by the request that answers all that wait; the rest is its.
	turn chan struct{}
	// known is the last object read or written.
	known *unstructured.Unstructured
	// chains are the workloads behind pods, read once for a batch.
	chains map[string]*unstructured.Unstructured
}

// answer gives a pod its subset. Requests take turns, and each answers all that wait, with one write.
func (h *Handler) answer(ctx context.Context, key types.NamespacedName, a *asked) error {
	q := h.join(key, a)
	defer h.leave(key, q, a)
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	case q.turn <- struct{}{}:
	}
	defer func() { <-q.turn }()
	if batch := h.take(q); len(batch) > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), newpods.Timeout) // it answers others, too
		defer cancel()
		err := h.decideAll(ctx, key, q, batch)
		for _, b := range batch {
			b.err = err
			close(b.done)
		}
	}
	return a.err
}

func (h *Handler) join(key types.NamespacedName, a *asked) *queue {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	q := h.queues[key]
	if q == nil {
		if h.queues == nil {
			h.queues = map[types.NamespacedName]*queue{}
		}
		q = &queue{turn: make(chan struct{}, 1)}
		h.queues[key] = q
	}
	q.requests++
	q.waiting = append(q.waiting, a)
	return q
}

func (h *Handler) take(q *queue) []*asked {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	batch := q.waiting
	q.waiting = nil
	return batch
}

// leave drops a queue with its last request. Nobody waits for the pod any more, so it is not counted.
func (h *Handler) leave(key types.NamespacedName, q *queue, a *asked) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(b *asked) bool { return a == b })
	if q.requests--; q.requests == 0 {
		delete(h.queues, key)
	}
}

// decideAll decides about pods, with one write for all.
func (h *Handler) decideAll(ctx context.Context, key types.NamespacedName, q *queue, batch []*asked) error {
	q.chains = nil
	for try := range tries {
		if try > 0 {
			q.known = nil
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Duration(rand.Int64N(int64(10*time.Millisecond) << min(try, 5)))):
			}
		}
		stored, err := h.read(ctx, key, q)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if err = h.decide(ctx, stored, q, batch); !apierrors.IsConflict(err) {
			return err
		}
	}
	return fmt.Errorf("the status of WorkloadSpread %s changes too often", key.Name)
}

func (h *Handler) read(ctx context.Context, key types.NamespacedName, q *queue) (*unstructured.Unstructured, error) {
	if q.known != nil {
		return q.known, nil
	}
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(spread.Kind())
	if err := h.Client.Get(ctx, key, stored); err != nil {
		return nil, fmt.Errorf("reading WorkloadSpread %s: %w", key.Name, err)
	}
	q.known = stored
	return stored, nil
}

// decide gives the pods their subsets, and counts them in the stored status.
func (h *Handler) decide(ctx context.Context, stored *unstructured.Unstructured, q *queue, batch []*asked) error {
	s := spread.ParseStored(stored)
	if s == nil {
		return nil
	}
	s, err := listed.Spreads(ctx, h.Client, h.Namespace).Complete(s)
	if s == nil || err != nil {
		return err
	}
	status := spread.StatusOf(stored)
	count := &counting{Handler: h, queue: q, spread: s, status: &status, shut: s.Shut(status.SubsetStatuses), live: map[string]bool{}, left: map[types.UID]int{}}
	for _, a := range batch {
		count.left[count.group(a)]++
	}
	for _, a := range batch {
		if err := count.place(ctx, a); err != nil {
			return err
		}
	}
	if !count.changed {
		return nil
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": stored.GetUID(), "resourceVersion": stored.GetResourceVersion()},
		"status":   map[string]any{"versionedSubsetStatuses": status.VersionedSubsetStatuses},
	})
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	written := stored.DeepCopy()
	if err := h.Client.Status().Patch(ctx, written, client.RawPatch(types.MergePatchType, body)); err != nil {
		return fmt.Errorf("counting pods in WorkloadSpread %s: %w", stored.GetName(), err)
	}
	q.known = written
	return nil
}
