// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package statuspatch writes the status of a workload: only when it changed, all of it compared, and at most once a second while
// nothing but counters move.
//
// A write is a merge patch of the difference, tied to the UID and resourceVersion of the object whose status it was compared
// with. Losing against somebody else's write is ordinary: the next pass sees the newer object.
package statuspatch

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
)

// DefaultInterval is how far apart writes are that change nothing but counters.
const DefaultInterval = time.Second

// Writer writes the statuses of one kind of workload. It is safe for concurrent use by different workloads.
type Writer struct {
	// Client writes.
	Client client.Client
	// Tracker hears of every write.
	Tracker *freshness.Tracker
	// Clock is the time.
	Clock clock.PassiveClock
	// Interval is how far apart writes are that are not urgent.
	Interval time.Duration
	// Timeout is the deadline of a write.
	Timeout time.Duration

	mu   sync.Mutex
	last map[types.NamespacedName]time.Time
}

// Forget drops what is remembered of a workload that is gone.
func (w *Writer) Forget(name types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, name)
}

// Write makes status the status of stored, if it differs. Unless urgent, a write that follows another one too soon is left, and
// Write returns how long to wait before trying again; the caller has to come back then, with the status of that time.
func (w *Writer) Write(ctx context.Context, stored *unstructured.Unstructured, status any, urgent bool) (wait time.Duration, err error) {
	patch, err := difference(stored, status)
	if err != nil {
		return 0, fmt.Errorf("comparing the status: %w", err)
	}
	if patch == nil {
		return 0, nil
	}
	owner := freshness.OwnerOf(stored)
	if wait := w.wait(owner.NamespacedName); wait > 0 && !urgent {
		return wait, nil
	}

	kind := stored.GroupVersionKind()
	answer := &metav1.PartialObjectMetadata{}
	answer.SetGroupVersionKind(kind)
	answer.Namespace, answer.Name = owner.Namespace, owner.Name
	ctx, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	err = w.Client.SubResource("status").Patch(ctx, answer, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(shared.FieldManager))
	w.Tracker.Answered(owner, freshness.RefOf(kind, stored), freshness.Patch, answer.ResourceVersion, err)
	switch {
	case err == nil:
		w.wrote(owner.NamespacedName)
		return 0, nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return w.Interval, nil
	default:
		return 0, fmt.Errorf("writing the status: %w", err)
	}
}

func (w *Writer) wait(name types.NamespacedName) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.last[name]
	if !ok {
		return 0
	}
	return max(w.Interval-w.Clock.Since(last), 0)
}

func (w *Writer) wrote(name types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		w.last = map[types.NamespacedName]time.Time{}
	}
	w.last[name] = w.Clock.Now()
}

// difference renders the patch that makes status the status of stored; nil when it is that already.
func difference(stored *unstructured.Unstructured, status any) ([]byte, error) {
	have := stored.Object["status"]
	if have == nil {
		have = map[string]any{}
	}
	before, err := json.Marshal(have)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	change, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return nil, err
	}
	if string(change) == "{}" && stored.Object["status"] != nil {
		return nil, nil
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": stored.GetUID(), "resourceVersion": stored.GetResourceVersion()},
		"status":   json.RawMessage(change),
	})
}
