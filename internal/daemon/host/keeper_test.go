// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestAFewWritesOfAStatusMayFollowEachOther(t *testing.T) {
	writes := NewKeeper(Host{}, nil, &corev1.Node{}).Writes
	begun := time.Unix(2e9, 0)
	now := begun
	var waited []time.Duration
	for range 8 {
		now = now.Add(100 * time.Millisecond)
		wait := writes.ReserveN(now, 1).DelayFrom(now)
		waited = append(waited, wait)
		now = now.Add(wait)
	}
	for i, wait := range waited {
		if i < 5 && wait != 0 || i >= 5 && (wait < time.Second || wait > 2*time.Second) {
			t.Errorf("write %d waits %s", i, wait)
		}
	}
	if took := now.Sub(begun); took < 5*time.Second {
		t.Errorf("8 writes within %s", took)
	}
	if wait := writes.ReserveN(now.Add(time.Minute), 1).DelayFrom(now.Add(time.Minute)); wait != 0 {
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
