// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

// TestWhatOpenKruiseLeftNeedsNothing: the fixtures' pod has started its containers in order, and its barrier
// stays. Before the last key, or after losing the barrier, it gets OpenKruise's keys.
func TestWhatOpenKruiseLeftNeedsNothing(t *testing.T) {
	objects := fixtures.Objects(t, "container-launch-priority/state.yaml")
	pod := fixtures.All[corev1.Pod](t, objects, "v1", "Pod")[0]
	barrier := fixtures.As[corev1.ConfigMap](t, fixtures.Find(t, objects, "ConfigMap", pod.Name+"-barrier"))
	if this, _ := holds(pod, barrier); !this {
		t.Error("the barrier is not the pod's")
	}
	d := Plan(pod, barrier)
	if d.Delete || d.Create || len(d.Release) > 0 || d.Complete || d.Blocked != "" || NeedsPass(pod) {
		t.Errorf("planned %+v", d)
	}
	lost := Plan(pod, nil)
	if diff := cmp.Diff(barrier.Data, Keys(lost.Open)); !lost.Create || diff != "" {
		t.Errorf("the barrier that is made again (-OpenKruise +ours):\n%s", diff)
	}
}
