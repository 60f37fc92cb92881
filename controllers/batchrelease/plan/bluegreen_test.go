// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/rolling"
)

// beginning is a release with all old pods, right after the brake.
func beginning() (*v1beta1.BatchRelease, Snapshot) {
	b := &v1beta1.BatchRelease{}
	b.Generation = 1
	b.Spec.ReleasePlan = v1beta1.ReleasePlan{
		RollingStyle: v1beta1.BlueGreenRollingStyle, BatchPartition: new(int32), Batches: []v1beta1.ReleaseBatch{{CanaryReplicas: intstr.FromString("100%")}},
	}
	row, _ := rollable.Of("apps/v1", "Deployment")
	v := rolling.View{Replicas: 3, Surge: 1, Observed: true, CaughtUp: true, Old: []rolling.Set{{Replicas: 3, Ready: 3, Desired: 3}}}
	return b, Snapshot{Now: time.Unix(1, 0), Scaling: true, Workload: &Workload{
		Workload: row, Facts: rollable.Facts{Replicas: 3, Revision: "v2", Stable: "v1", Settled: true, InRelease: true, Guarded: true}, Rolling: &v,
	}}
}

// written is a write in words; empty: none.
func written(a Act) string {
	switch {
	case a.Hold:
		return "hold"
	case a.Free:
		return "free"
	case a.Control:
		return "control"
	case a.Restore:
		return "restore"
	case a.Beside != nil:
		return fmt.Sprintf("beside %d", *a.Beside)
	case len(a.Delete) > 0:
		return fmt.Sprintf("delete %v", a.Delete)
	case a.Rolling != nil:
		return fmt.Sprintf("%s %d %d %d", a.Rolling.Verb, a.Rolling.Surge, a.Rolling.Set, a.Rolling.Replicas)
	}
	return ""
}

// next is what a release writes next, however many decisions that takes.
func next(b *v1beta1.BatchRelease, s Snapshot) string {
	for range 5 {
		d := Plan(b, s)
		if b.Status = d.Status; d.Act.any() {
			return written(d.Act)
		}
	}
	return ""
}

// TestOldPodsAreKept: autoscalers first, then the ReplicaSet of old pods, then the Deployment, then new pods. A batch is ready when all old
// pods are there, too; at rest nobody has to look.
func TestOldPodsAreKept(t *testing.T) {
	b, s := beginning()
	w, v := s.Workload, s.Workload.Rolling
	expect := func(want string) {
		t.Helper()
		if got := next(b, s); got != want {
			t.Fatalf("it writes %q, want %q", got, want)
		}
	}
	expect("hold")
	s.Scaling, s.Held = false, true
	expect("slow 0 0 0")
	v.Old[0].Slow = true
	expect("control")
	w.Controlled = true
	expect("move 3 0 0")
	v.Moving, v.InForce, v.New, w.Updated, w.Ready = true, 3, rolling.Set{Replicas: 3, Ready: 3}, 3, 3
	v.Old[0].Replicas = 2
	expect("note 0 0 3")
	if b.Status.CanaryStatus.CurrentBatchState == v1beta1.BatchStateReady {
		t.Error("the batch is ready without an old pod")
	}
	v.Old[0].Replicas = 3
	expect("")
	if d := Plan(b, s); d.Status.CanaryStatus.CurrentBatchState != v1beta1.BatchStateReady || d.Moving {
		t.Errorf("the batch is %s, moving %t", d.Status.CanaryStatus.CurrentBatchState, d.Moving)
	}
}

// TestOldPodsAtTheEnd: how a release ends that had all of both.
func TestOldPodsAtTheEnd(t *testing.T) {
	ends := func(policy v1beta1.FinalizingPolicyType) (*v1beta1.BatchRelease, Snapshot) {
		b, s := beginning()
		b.Spec.ReleasePlan.BatchPartition, b.Spec.ReleasePlan.FinalizingPolicy = nil, policy
		b.Status = v1beta1.BatchReleaseStatus{Phase: v1beta1.BatchReleasePhaseProgressing, StableRevision: "v1", UpdateRevision: "v2"}
		s.Scaling, s.Held = false, true
		w := s.Workload
		w.Controlled, w.InRelease, w.Updated, w.Ready, w.Available = true, false, 3, 3, 6
		*w.Rolling = rolling.View{
			Replicas: 3, Observed: true, CaughtUp: true, Moving: true, InForce: 3, New: rolling.Set{Replicas: 3, Ready: 3}, Old: []rolling.Set{{Replicas: 3, Ready: 3, Slow: true}},
		}
		return b, s
	}
	given := func(s Snapshot) Snapshot { s.Workload.Controlled, s.Workload.Rolling.Moving = false, false; return s }
	expect := func(b *v1beta1.BatchRelease, s Snapshot, want string, over bool) {
		t.Helper()
		if got := next(b, s); got != want || (b.Status.Phase == v1beta1.BatchReleasePhaseCompleted) != over {
			t.Errorf("it writes %q in phase %s, want %q", got, b.Status.Phase, want)
		}
	}

	// Success: the Deployment controller takes old pods, and the release waits for that.
	b, s := ends(v1beta1.WaitResumeFinalizingPolicyType)
	expect(b, s, "restore", false)
	expect(b, given(s), "quick 0 0 0", false)
	s.Workload.Rolling.Old[0].Slow = false
	expect(b, s, "", false)
	s.Workload.Rolling.Old[0].Replicas = 0
	expect(b, s, "free", false)
	s.Held = false
	expect(b, s, "", true)

	// The template is set back at that moment: the new pods have all requests.
	b, s = ends(v1beta1.WaitResumeFinalizingPolicyType)
	s.Workload.Revision, s.Workload.InRelease = "v1", true
	expect(b, s, "", true)

	// A way back: new pods go first, whose set is the old one now.
	b, s = ends(v1beta1.ImmediateFinalizingPolicyType)
	s.Workload.Revision = "v1"
	expect(b, s, "lower 0 0 0", false)
	s.Workload.Rolling.Old[0].Replicas = 0
	expect(b, s, "restore", false)

	// The workload is gone: only the autoscaler is left.
	b, s = ends(v1beta1.ImmediateFinalizingPolicyType)
	s.Workload = nil
	if d := Plan(b, s); written(d.Act) != "free" || d.Ended {
		t.Errorf("it writes %q, ended %t", written(d.Act), d.Ended)
	}
}

// TestPodsBesideThoseOfACloneSet: pods of a version in the middle go before new ones come, and new ones before a way back ends.
func TestPodsBesideThoseOfACloneSet(t *testing.T) {
	b, s := beginning()
	w := s.Workload
	w.Workload, _ = rollable.Of("apps.kruise.io/v1beta1", "CloneSet")
	w.Rolling, w.Old, w.Kept, s.Scaling = nil, 3, 3, false
	expect := func(want string) {
		t.Helper()
		if got := next(b, s); got != want {
			t.Fatalf("it writes %q, want %q", got, want)
		}
	}
	expect("control")
	w.Controlled, w.Middle, w.Twin = true, []string{"web-x"}, rollable.Twin{Revision: "v0", Pods: 1}
	expect("delete [web-x]")
	w.Middle = nil
	expect("beside 3")
	w.Twin, w.Updated, w.Ready, w.Available, w.Old = rollable.Twin{Revision: "v2", Pods: 3}, 3, 3, 6, 2
	expect("")
	if b.Status.CanaryStatus.CurrentBatchState == v1beta1.BatchStateReady {
		t.Error("the batch is ready without an old pod")
	}
	w.Old = 3
	expect("")
	if b.Status.CanaryStatus.CurrentBatchState != v1beta1.BatchStateReady {
		t.Errorf("the batch is %s", b.Status.CanaryStatus.CurrentBatchState)
	}
	b.Spec.ReleasePlan.BatchPartition, b.Spec.ReleasePlan.FinalizingPolicy = nil, v1beta1.ImmediateFinalizingPolicyType
	w.Revision, w.InRelease, w.Old, w.Middle = "v1", false, 0, []string{"web-a", "web-b"}
	expect("delete [web-a web-b]")
	w.Middle = nil
	expect("restore")
}
