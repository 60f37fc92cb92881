// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

func TestWorkloadsNeedTheNodeDaemonWhilePodsWaitForIt(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	needs := NewDaemonNeeds(clock)
	pass := func(uid string) *Pass {
		stored := &unstructured.Unstructured{Object: map[string]any{}}
		stored.SetUID(types.UID(uid))
		return &Pass{Base: &Base{Dependencies: Dependencies{DaemonNeeds: needs}}, Stored: stored}
	}
	waiting := []podset.Pod{{Object: &corev1.Pod{}}, {Object: &corev1.Pod{}, Update: inplace.Status{Progress: inplace.Running, Reason: inplace.ReasonNodeDaemon}}}
	if needs.Any() {
		t.Error("needed from the beginning")
	}
	if wait := pass("first").needNodeDaemon(waiting); wait != needRepeats || !needs.Any() || len(needs.Added()) != 1 {
		t.Errorf("looked at again after %s, needed %v, %d events", wait, needs.Any(), len(needs.Added()))
	}
	pass("second").needNodeDaemon(waiting)
	if wait := pass("first").needNodeDaemon(waiting[:1]); wait != 0 || !needs.Any() {
		t.Errorf("one of two is over: looked at again after %s, needed %v", wait, needs.Any())
	}
	// The other workload is gone and says nothing any more.
	clock.SetTime(clock.Now().Add(needLasts + time.Second))
	if needs.Any() {
		t.Error("needed by a workload that is gone")
	}
	if wait := pass("list").NoteDaemonNeed(true); wait != needRepeats || !needs.Any() {
		t.Errorf("an object that is no workload: looked at again after %s, needed %v", wait, needs.Any())
	}
	if wait := pass("list").NoteDaemonNeed(false); wait != 0 || needs.Any() {
		t.Errorf("it has ended: looked at again after %s, needed %v", wait, needs.Any())
	}
	if wait := (&Pass{Base: &Base{}, Stored: &unstructured.Unstructured{}}).needNodeDaemon(waiting); wait != 0 {
		t.Errorf("where no daemon is deployed: looked at again after %s", wait)
	}
}
