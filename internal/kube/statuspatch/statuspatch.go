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
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
)

// DefaultInterval is how far apart writes are that change nothing but counters.
const DefaultInterval = time.Second

// Writer writes the statuses of one kind of workload. It is safe for concurrent use by different workloads.
type Writer struct {
	// Writer writes.
	Writer *writer.Writer
	// Clock is the time.
	Clock clock.PassiveClock
	// Interval is how far apart writes are that are not urgent.
	Interval time.Duration
}

// State is what is remembered of the status of one workload. The zero value says that it was not written yet.
type State struct {
	// written is when it was written last, gone when the server last said that it has no such object.
	written, gone time.Time
}

// goneFor is how long nothing is done for an object that the server does not have. The cache shows that much sooner, unless its watch lags; then
// each pass would make pods that are collected at once. It ends by itself, since a server that has just started may say so by mistake.
const goneFor = 5 * time.Second

// Gone is for how much longer nothing is done for the workload, because the server has said that it does not exist.
func (s *State) Gone(now time.Time) time.Duration {
	if s.gone.IsZero() {
		return 0
	}
	return max(s.gone.Add(goneFor).Sub(now), 0)
}

// Write makes status the status of stored, if it differs. Unless urgent, a write that follows another one too soon is left, and
// Write returns how long to wait before trying again; the caller has to come back then, with the status of that time.
func (w *Writer) Write(ctx context.Context, last *State, stored *unstructured.Unstructured, status any, urgent bool) (wait time.Duration, err error) {
	patch, err := difference(stored, status)
	if err != nil {
		return 0, fmt.Errorf("comparing the status: %w", err)
	}
	if patch == nil {
		return 0, nil
	}
	if wait := w.Interval - w.Clock.Since(last.written); wait > 0 && !urgent {
		return wait, nil
	}

	ref := freshness.RefOf(stored.GroupVersionKind(), stored)
	_, err = w.Writer.Patch(ctx, freshness.OwnerOf(stored), ref, writer.Patch{Subresource: "status", Type: types.MergePatchType, Body: patch})
	switch {
	case err == nil:
		last.written = w.Clock.Now()
		return 0, nil
	case apierrors.IsConflict(err):
		return w.Interval, nil
	case apierrors.IsNotFound(err):
		last.gone = w.Clock.Now()
		return goneFor, nil
	default:
		return 0, fmt.Errorf("writing the status: %w", err)
	}
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
