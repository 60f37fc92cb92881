// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestAFewWritesOfAStatusMayFollowEachOther(t *testing.T) {
	var w Writes
	begun := time.Unix(2e9, 0)
	now := begun
	var waited []time.Duration
	for range 8 {
		wait := w.Wait(now)
		waited = append(waited, wait)
		now = now.Add(wait + 100*time.Millisecond)
		w.Note(now)
	}
	for i, wait := range waited {
		if i < 5 && wait != 0 || i == 5 && (wait < 9*time.Second || wait > 10*time.Second) {
			t.Errorf("write %d waits %s", i, wait)
		}
	}
	if took := now.Sub(begun); len(w.at) != 5 || took < 10*time.Second {
		t.Errorf("8 writes within %s, %d are remembered", took, len(w.at))
	}
	if wait := w.Wait(now.Add(time.Minute)); wait != 0 {
		t.Errorf("a minute later it waits %s", wait)
	}
}

// After an hour without API server the operator must not wait another: after ten minutes
// a tag would have failed.
func TestAStatusThatCannotBeWrittenIsTriedAgainSoon(t *testing.T) {
	limiter, longest := retries(), time.Duration(0)
	for range 100 {
		longest = max(longest, limiter.When(reconcile.Request{}))
	}
	if longest > time.Minute {
		t.Errorf("after a hundred failures it is tried again in %s", longest)
	}
}
