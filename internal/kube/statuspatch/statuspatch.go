// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package statuspatch writes the status of a workload: only when it changed, all of it compared, and at most once a second while
// nothing but counters move.
//
// A write is a merge patch of the difference, tied to the UID and resourceVersion of the
// compared object. Losing to somebody else's write is ordinary: the next pass sees the
// newer object.
package statuspatch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
)

// DefaultInterval is the least time between writes for counters alone.
const DefaultInterval = time.Second

// Writer writes the statuses of one kind of workload. It is safe for concurrent use by different workloads.
type Writer struct {
	// Writer writes.
	Writer *writer.Writer
	// Clock is the time.
	Clock clock.PassiveClock
	// Interval is the least time between writes without urgency.
	Interval time.Duration
}

// State is the memory of one workload's status. The zero value: not written yet.
type State struct {
	// written is the time of the last write, gone when the server last had no such object.
	written, gone time.Time
}

// goneFor is how long an object missing on the server is left alone. The cache shows this
// much sooner, unless its watch lags; then each pass would make pods that are collected at
// once. It expires: a server just started may err.
const goneFor = 5 * time.Second

// Gone is how much longer the workload is left alone because the server does not have it.
func (s *State) Gone(now time.Time) time.Duration {
	if s.gone.IsZero() {
		return 0
	}
	return max(s.gone.Add(goneFor).Sub(now), 0)
}

// Write makes status the status of stored, if it differs. Unless urgent, or if more than counters and messages changed, a write too
// soon after another is left, and Write returns the wait; the caller has to come back then, with the status of that time.
func (w *Writer) Write(ctx context.Context, last *State, stored *unstructured.Unstructured, status any, urgent bool) (wait time.Duration, err error) {
	change, err := difference(stored, status)
	if err != nil {
		return 0, fmt.Errorf("comparing the status: %w", err)
	}
	if change == nil {
		return 0, nil
	}
	if wait := w.Interval - w.Clock.Since(last.written); wait > 0 && !urgent && !tells(stored.Object, change) {
		return wait, nil
	}

	ref := freshness.RefOf(stored.GroupVersionKind(), stored)
	_, err = w.Writer.Patch(ctx, freshness.OwnerOf(stored), ref, writer.Patch{Subresource: "status", Type: types.MergePatchType, Content: map[string]any{
		"metadata": map[string]any{"uid": stored.GetUID(), "resourceVersion": stored.GetResourceVersion()},
		"status":   change,
	}})
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

// difference is the merge patch from stored's status to status; nil if equal.
func difference(stored *unstructured.Unstructured, status any) (map[string]any, error) {
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
	patch, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil || string(patch) == "{}" && stored.Object["status"] != nil {
		return nil, err
	}
	var change map[string]any
	return change, json.Unmarshal(patch, &change)
}

// tells is true if more changed than counters and messages: the generation, a word, a time, or the type, status or reason of a condition.
func tells(stored, change map[string]any) bool {
	before, _ := stored["status"].(map[string]any)
	for field, value := range change {
		_, is := value.(string)
		_, was := before[field].(string)
		switch {
		case field == "observedGeneration", field != "message" && (is || was):
			return true
		case field == "conditions" && !sameConditions(stored, map[string]any{"status": change}):
			return true
		}
	}
	return false
}

func sameConditions(a, b map[string]any) bool {
	return conditions.EqualIgnoringMessages(slices.Collect(conditions.OfObject(a)), slices.Collect(conditions.OfObject(b)))
}
