// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

// TestTakingOverFromOpenKruise plans for OpenKruise's objects: a job completed
// on four nodes stays, and one running on three, with parallelism 3, goes on.
func TestTakingOverFromOpenKruise(t *testing.T) {
	objects := fixtures.Objects(t, "broadcastjob/state.yaml")
	nodes := fixtures.All[corev1.Node](t, fixtures.Objects(t, "cluster/state.yaml"), "v1", "Node")
	pods := fixtures.All[corev1.Pod](t, objects, "v1", "Pod")
	plan := func(job *appsv1beta1.BroadcastJob) (*Spec, Snapshot, Decision) {
		spec := Parse(job, false)
		var own []*corev1.Pod
		for _, pod := range pods {
			if pod.OwnerReferences[0].UID == job.UID {
				own = append(own, pod)
			}
		}
		now := job.CreationTimestamp.Add(10 * time.Minute)
		s := Snapshot{Now: now, Nodes: spec.Nodes(nodes), Pods: Pods(own, now)}
		return spec, s, Plan(spec, s)
	}
	for _, job := range fixtures.All[appsv1beta1.BroadcastJob](t, objects, "apps.kruise.io/v1beta1", "BroadcastJob") {
		spec, s, d := plan(job)
		if len(d.Actions) > 0 {
			t.Errorf("%s: %s %s", job.Name, d.Actions[0].Step, d.Actions[0].Slot)
		}
		status := Status(spec, s, d, planning.Outcome{})
		want := job.Status.DeepCopy()
		want.ObservedGeneration = job.Generation
		got := status.DeepCopy()
		got.Conditions = nil
		for _, c := range status.Conditions { // ours come beside
			if c.Type == appsv1beta1.BroadcastJobConditionComplete {
				got.Conditions = append(got.Conditions, c)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("status of %s (-OpenKruise +ours):\n%s", job.Name, diff)
		}
		if job.Name != "busy" {
			continue
		}
		job.Spec.Parallelism = nil
		if _, _, d := plan(job); len(d.Actions) != 1 || d.Actions[0].Slot != "node-3" && d.Actions[0].Slot != "node-2" && d.Actions[0].Slot != "node-1" {
			t.Errorf("without a limit, %d actions for %s", len(d.Actions), job.Name)
		}
	}
}
