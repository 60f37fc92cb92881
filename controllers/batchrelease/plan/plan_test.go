// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/rolling"
	"github.com/kruise-operator/kruise-operator/internal/engine/rolling/testutil"
)

var now = time.Unix(1_000_000, 0)

// world is a BatchRelease with its workload.
type world struct {
	*testing.T
	now     time.Time
	release *v1beta1.BatchRelease
	w       *Workload
	// pods say of each pod if it is updated.
	pods []bool
	// model is a Deployment.
	model *testutil.Release
	limit testutil.Plan
}

func newWorld(t *testing.T, version, kind string, replicas int, batches ...string) *world {
	t.Helper()
	row, known := rollable.Of(version, kind)
	if !known {
		t.Fatalf("%s is unknown", kind)
	}
	b := &v1beta1.BatchRelease{}
	for _, size := range batches {
		b.Spec.ReleasePlan.Batches = append(b.Spec.ReleasePlan.Batches, v1beta1.ReleaseBatch{CanaryReplicas: intstr.Parse(size)})
	}
	w := &world{T: t, now: now, release: b, pods: make([]bool, replicas), w: &Workload{
		Workload: row, Controlled: true,
		Facts: rollable.Facts{Settled: true, InRelease: true, Guarded: true, Replicas: replicas, MaxUnavailable: 1, Revision: "v2", Stable: "v1", Kept: 32767},
	}}
	w.order(0)
	switch {
	case kind == "Deployment":
		w.limit = testutil.Plan{Surge: 1, Unavailable: 1, Steps: []int{100}}
		model := testutil.Started(w.limit, replicas)
		w.model = &model
	case kind == "DaemonSet" && version == "apps/v1":
		for i := range replicas {
			w.w.Pods = append(w.w.Pods, Pod{Name: fmt.Sprintf("web-%d", i), Ready: true, Created: int64(i)})
		}
	}
	w.see()
	return w
}

func (w *world) order(batch int32) {
	w.release.Spec.ReleasePlan.BatchPartition = &batch
	w.release.Generation++
}

// see fills in what a pass reads.
func (w *world) see() {
	switch {
	case w.model != nil:
		v := w.model.View(w.limit)
		w.w.Rolling, w.w.Updated, w.w.Ready, w.w.Available = &v, v.New.Replicas, v.New.Ready, w.model.Total.Ready
	case w.w.Pods != nil:
		w.w.Updated, w.w.Ready, w.w.Available = 0, 0, 0
		for _, pod := range w.w.Pods {
			w.w.Updated += boolean(pod.Updated)
			w.w.Ready += boolean(pod.Updated && pod.Ready)
			w.w.Available += boolean(pod.Ready)
		}
	default:
		w.w.Updated = 0
		for _, updated := range w.pods {
			w.w.Updated += boolean(updated)
		}
		w.w.Ready, w.w.Available = w.w.Updated, w.w.Replicas
	}
}

// pass is a pass, and what the workload makes of it.
func (w *world) pass() Decision {
	w.Helper()
	d := Plan(w.release, Snapshot{Now: w.now, Workload: w.w})
	w.release.Status = d.Status
	switch {
	case d.Act.Partition != nil:
		w.w.Kept = *d.Act.Partition
	case d.Act.Rolling != nil:
		w.model.Pending, w.model.Valid = *d.Act.Rolling, true
		w.model.Act(w.limit)
	case d.Act.Restore:
		w.w.Controlled, w.w.Kept = false, 0
	}
	for _, name := range d.Act.Delete {
		i := slices.IndexFunc(w.w.Pods, func(p Pod) bool { return p.Name == name })
		w.w.Pods[i] = Pod{Name: name + "'", Updated: true}
	}
	w.react()
	w.see()
	return d
}

// react is the controller of the workload, and the kubelet.
func (w *world) react() {
	w.Helper()
	switch {
	case w.model != nil:
		for _, m := range testutil.Machines(testutil.Plan{Surge: 1, Unavailable: 1, Steps: []int{100}}) {
			if m.Name == "we decide" || m.Name == "we act" {
				continue
			}
			if broken := w.model.Do(w.limit, m.Do); broken != "" {
				w.Fatal(broken)
			}
		}
	case w.w.Pods != nil:
		down := 0
		for i := range w.w.Pods {
			down += boolean(!w.w.Pods[i].Ready)
		}
		if down > w.w.MaxUnavailable {
			w.Fatalf("%d pods are down", down)
		}
		for i := range w.w.Pods {
			w.w.Pods[i].Ready = true
		}
	default:
		for i := range w.pods {
			w.pods[i] = w.pods[i] || i >= w.w.Kept
		}
	}
}

// until passes until a batch is ready.
func (w *world) until(batch int32) {
	w.Helper()
	for range 200 {
		w.pass()
		status := w.release.Status.CanaryStatus
		if status.CurrentBatch == batch && status.CurrentBatchState == v1beta1.BatchStateReady {
			return
		}
	}
	w.Fatalf("batch %d is not ready: %+v", batch, w.release.Status)
}

func TestEveryKindInBatches(t *testing.T) {
	for _, row := range rollable.All() {
		version, kind := row.Kind.GroupVersion().String(), row.Kind.Kind
		t.Run(version+" "+kind, func(t *testing.T) {
			w := newWorld(t, version, kind, 10, "1", "50%", "100%")
			for batch, want := range []int{1, 5, 10} {
				w.order(int32(batch))
				w.until(int32(batch))
				for range 20 { // nothing more comes
					w.pass()
				}
				if w.w.Updated != want {
					t.Fatalf("after batch %d %d pods are updated, want %d", batch, w.w.Updated, want)
				}
			}
			w.release.Spec.ReleasePlan.BatchPartition, w.w.InRelease = nil, false
			w.release.Spec.ReleasePlan.FinalizingPolicy = v1beta1.WaitResumeFinalizingPolicyType
			w.pass()
			w.pass()
			if w.w.Controlled || w.release.Status.Phase != v1beta1.BatchReleasePhaseCompleted {
				t.Errorf("not finalized: %+v", w.release.Status)
			}
		})
	}
}

func TestOrdinalsBeginAnywhere(t *testing.T) {
	w := newWorld(t, "apps/v1", "StatefulSet", 4, "1")
	w.w.Start = 5
	w.until(0)
	if w.w.Kept != 3 || w.w.Updated != 1 { // Kubernetes counts from the first ordinal
		t.Errorf("partition %d, %d updated", w.w.Kept, w.w.Updated)
	}
}

func TestAWorkloadScaledToNoneAndBackKeepsItsBatch(t *testing.T) {
	w := newWorld(t, "apps.kruise.io/v1beta1", "StatefulSet", 4, "1")
	w.until(0)
	w.pods, w.w.Replicas = nil, 0
	w.see()
	w.until(0)
	if w.w.Kept != 3 {
		t.Errorf("the partition is %d", w.w.Kept)
	}
}

func TestAPartitionNeverRises(t *testing.T) {
	w := newWorld(t, "apps/v1", "StatefulSet", 4, "1", "3")
	w.order(1)
	w.until(1)
	w.order(0)
	w.until(0)
	if w.w.Updated != 3 || w.w.Kept != 1 {
		t.Errorf("partition %d, %d updated", w.w.Kept, w.w.Updated)
	}
}

func TestAScaledWorkloadRedoesItsBatch(t *testing.T) {
	w := newWorld(t, "apps.kruise.io/v1beta1", "CloneSet", 4, "50%")
	w.until(0)
	w.pods, w.w.Replicas = append(w.pods[:0:0], append([]bool{false, false}, w.pods...)...), 6
	w.w.Kept += 2
	w.see()
	w.until(0)
	if w.w.Updated != 3 {
		t.Errorf("%d pods of 6 are updated", w.w.Updated)
	}
}

func TestAnotherTemplateIsTheRollouts(t *testing.T) {
	w := newWorld(t, "apps/v1", "StatefulSet", 4, "1", "100%")
	w.until(0)
	w.w.Revision = "v3"
	w.order(1)
	if d := w.pass(); d.Act.Partition != nil || d.Act.Restore {
		t.Errorf("it goes on: %+v", d.Act)
	}
}

func TestAWorkloadThatSomebodyTookIsTheRollouts(t *testing.T) {
	w := newWorld(t, "apps/v1", "StatefulSet", 4, "1", "100%")
	w.until(0)
	w.w.Guarded = false
	w.order(1)
	if d := w.pass(); d.Act.any() || d.Status.Message == "" {
		t.Errorf("it goes on: %+v", d.Act)
	}
}

func TestTheEndOfABatchRelease(t *testing.T) {
	deleted := &metav1.Time{Time: now}
	for name, tc := range map[string]struct {
		change  func(*world)
		restore bool
		ended   bool
	}{
		"while the release goes on":   {change: func(w *world) { w.release.DeletionTimestamp = deleted }, ended: true},
		"after the mark was removed":  {change: func(w *world) { w.release.DeletionTimestamp, w.w.InRelease = deleted, false }, restore: true},
		"when its workload is gone":   {change: func(w *world) { w.release.DeletionTimestamp, w.w = deleted, nil }, ended: true},
		"of a template that was back": {change: func(w *world) { w.release.Spec.ReleasePlan.BatchPartition, w.w.Revision = nil, "v1" }, restore: true},
		"with another template":       {change: func(w *world) { w.release.Spec.ReleasePlan.BatchPartition, w.w.Revision = nil, "v3" }},
		"of control, with another template": {change: func(w *world) {
			w.release.Spec.ReleasePlan.BatchPartition, w.w.Revision, w.w.InRelease = nil, "v3", false
		}, restore: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "apps/v1", "StatefulSet", 4, "1")
			w.until(0)
			tc.change(w)
			d := Plan(w.release, Snapshot{Now: now, Workload: w.w})
			if d.Act.Restore != tc.restore || d.Ended != tc.ended {
				t.Errorf("got %+v", d)
			}
		})
	}
}

func TestTheEndOfOneThatHadNothingYet(t *testing.T) {
	w := newWorld(t, "apps/v1", "Deployment", 4, "1")
	w.w.Controlled, w.w.InRelease, w.release.Spec.ReleasePlan.BatchPartition = false, false, nil
	w.pass()
	if d := w.pass(); !d.Act.Control {
		t.Fatalf("what the brake holds is not taken over: %+v", d)
	}
	w.w.Controlled = true
	w.pass()
	if d := w.pass(); w.w.Controlled || d.Status.Phase == v1beta1.BatchReleasePhasePreparing {
		t.Errorf("it is not given back: %+v", d)
	}
	w = newWorld(t, "apps/v1", "Deployment", 4, "1")
	w.w.Controlled, w.release.Spec.ReleasePlan.BatchPartition = false, nil
	for range 4 {
		if d := w.pass(); d.Act.any() {
			t.Errorf("another change is held, and gets %+v", d.Act)
		}
	}
}

func TestAWorkloadWithoutBatchesIsLetGoInTheEnd(t *testing.T) {
	w := newWorld(t, "apps/v1", "Deployment", 4, "1")
	w.w.Unsupported, w.w.Held, w.w.Controlled, w.w.InRelease = "a Deployment of type Recreate has no batches", true, false, false
	if d := w.pass(); d.Act.any() || w.release.Status.Phase != "" {
		t.Fatalf("got %+v", d)
	}
	w.release.Spec.ReleasePlan.BatchPartition = nil
	if d := Plan(w.release, Snapshot{Now: now, Workload: w.w}); !d.Act.Restore || d.Act.Keep || d.Act.Control {
		t.Errorf("it stays held: %+v", d.Act)
	}
	w.w.Held = false
	w.w.Updated, w.w.Available = 4, 4
	if d := Plan(w.release, Snapshot{Now: now, Workload: w.w}); d.Act.any() || d.Status.Phase != v1beta1.BatchReleasePhaseCompleted {
		t.Errorf("it does not end: %+v", d)
	}
}

func TestTheEndWaitsForPods(t *testing.T) {
	w := newWorld(t, "apps/v1", "StatefulSet", 4, "100%")
	w.until(0)
	w.release.Spec.ReleasePlan.BatchPartition, w.release.Spec.ReleasePlan.FinalizingPolicy = nil, v1beta1.WaitResumeFinalizingPolicyType
	w.w.Controlled, w.w.Available, w.w.Unready = false, 2, []string{"web-3: CrashLoopBackOff"}
	d := Plan(w.release, Snapshot{Now: now, Workload: w.w})
	if d.Status.Phase != v1beta1.BatchReleasePhaseFinalizing || d.Status.Message != "web-3: CrashLoopBackOff" {
		t.Errorf("got %+v", d.Status)
	}
}

func TestAStuckBatchNamesItsPods(t *testing.T) {
	w := newWorld(t, "apps/v1", "StatefulSet", 10, "8")
	w.pass()
	w.w.Ready, w.w.Unready = 1, []string{"a: Pending", "b: Pending", "c: Pending", "d: Pending", "e: Pending", "f: Pending", "g: Pending"}
	d := Plan(w.release, Snapshot{Now: now, Workload: w.w})
	if !strings.HasSuffix(d.Status.Message, "e: Pending; and 2 more") || d.Status.CanaryStatus.CurrentBatchState != v1beta1.BatchStateVerifying {
		t.Errorf("got %+v", d.Status)
	}
}

func TestATolerantBatch(t *testing.T) {
	for threshold, want := range map[string]v1beta1.BatchState{"2": v1beta1.BatchStateReady, "1": v1beta1.BatchStateVerifying, "25%": v1beta1.BatchStateReady} {
		w := newWorld(t, "apps/v1", "StatefulSet", 10, "8")
		size := intstr.Parse(threshold)
		w.release.Spec.ReleasePlan.FailureThreshold = &size
		w.pass()
		w.w.Ready = 6
		if d := Plan(w.release, Snapshot{Now: now, Workload: w.w}); d.Status.CanaryStatus.CurrentBatchState != want {
			t.Errorf("%s: %s", threshold, d.Status.CanaryStatus.CurrentBatchState)
		}
	}
}

func TestWhichPodsOfADaemonSetGoFirst(t *testing.T) {
	w := newWorld(t, "apps/v1", "DaemonSet", 4, "100%")
	w.w.MaxUnavailable = 2
	w.w.Pods = []Pod{
		{Name: "old", Ready: true, Created: 1}, {Name: "new", Ready: true, Created: 2}, {Name: "cheap", Ready: true, Cost: -1}, {Name: "pending", Pending: true},
	}
	if act := daemonSet(w.w, 4); !slices.Equal(act.Delete, []string{"pending", "cheap"}) {
		t.Errorf("got %v", act.Delete)
	}
	w.w.Pods[3] = Pod{Name: "gone", Gone: true}
	if act := daemonSet(w.w, 2); !slices.Equal(act.Delete, []string{"cheap"}) {
		t.Errorf("with one that is replaced: %v", act.Delete)
	}
}

// TestAReleaseSoonAfterAnotherTakesFewPodsOfADaemonSet: pods within minReadySeconds are in service, and must not go all at once.
func TestAReleaseSoonAfterAnotherTakesFewPodsOfADaemonSet(t *testing.T) {
	soon, ready, broken := Pod{Soon: true}, Pod{Ready: true}, Pod{}
	for _, c := range []struct {
		pods []Pod
		may  int
		want []string
	}{
		{[]Pod{soon, soon, soon, soon}, 1, nil},
		{[]Pod{soon, soon, soon, soon}, 4, []string{"0", "1", "2", "3"}},
		{[]Pod{soon, broken, soon, ready}, 1, []string{"1"}},
		{[]Pod{ready, soon, ready, soon}, 2, []string{"1", "3"}},
		{[]Pod{ready, soon, ready, ready}, 2, []string{"1", "0"}},
	} {
		w := newWorld(t, "apps/v1", "DaemonSet", len(c.pods), "100%")
		w.w.MaxUnavailable, w.w.Pods = c.may, c.pods
		for i := range c.pods {
			c.pods[i].Name = strconv.Itoa(i)
		}
		if act := daemonSet(w.w, len(c.pods)); !slices.Equal(act.Delete, c.want) {
			t.Errorf("maxUnavailable %d of %+v: deleted are %v, not %v", c.may, c.pods, act.Delete, c.want)
		}
	}
}

func TestADeploymentIsParkedAfterItsBatch(t *testing.T) {
	w := newWorld(t, "apps/v1", "Deployment", 10, "3")
	w.until(0)
	for range 50 {
		w.pass()
	}
	if d := w.model.Deployment; !d.Paused || d.Huge || w.model.Sizes() != [testutil.Versions]int{7, 3, 0} {
		t.Errorf("got %+v %v", d, w.model.Sizes())
	}
	if d := Plan(w.release, Snapshot{Now: now, Workload: w.w}); d.Act.Rolling != nil && d.Act.Rolling.Verb != rolling.Wait {
		t.Errorf("at rest: %+v", d.Act.Rolling)
	}
}

// An order that follows at once finds the surge of the batch before: nothing is written between them but ReplicaSets.
func TestABatchFollowsAnotherWithoutAPause(t *testing.T) {
	w := newWorld(t, "apps/v1", "Deployment", 10, "3", "6", "100%")
	w.until(0)
	moving := w.model.Deployment
	w.order(1)
	for w.release.Status.CanaryStatus.CurrentBatch == 0 || w.release.Status.CanaryStatus.CurrentBatchState != v1beta1.BatchStateReady {
		w.pass()
		if w.model.Deployment != moving {
			t.Fatalf("it was %+v and is %+v", moving, w.model.Deployment)
		}
	}
	for range 50 {
		w.pass()
	}
	if w.model.Deployment != moving {
		t.Errorf("it does not wait for an order: %+v", w.model.Deployment)
	}
	w.now = w.now.Add(hold)
	for range 50 {
		w.pass()
	}
	if d := w.model.Deployment; !d.Paused || w.model.Sizes() != [testutil.Versions]int{4, 6, 0} {
		t.Errorf("it is not parked: %+v %v", d, w.model.Sizes())
	}
	w.order(2)
	w.until(2)
	if d := w.model.Deployment; d.Paused || d.Huge || d.Surge != w.limit.Surge {
		t.Errorf("the last batch does not go on by itself: %+v", d)
	}
	w.release.Spec.ReleasePlan.Batches = w.release.Spec.ReleasePlan.Batches[:2]
	w.order(1)
	w.pass()
	if !w.model.Deployment.Paused {
		t.Errorf("a shorter plan does not stop it: %+v", w.model.Deployment)
	}
}

func TestAWorkloadIsTakenOverOnce(t *testing.T) {
	w := newWorld(t, "apps/v1", "StatefulSet", 4, "1")
	w.w.Controlled = false
	if d := w.pass(); d.Act.any() || d.Status.Phase != v1beta1.BatchReleasePhasePreparing || d.Status.StableRevision != "v1" {
		t.Errorf("not stored first: %+v", d)
	}
	if d := w.pass(); !d.Act.Control {
		t.Errorf("not taken over: %+v", d)
	}
	w.w.Controlled, w.w.Stable = true, "v2"
	w.until(0)
	if got := w.release.Status.StableRevision; got != "v1" {
		t.Errorf("the stable revision is %s now", got)
	}
}

func TestWhatIsRefused(t *testing.T) {
	for reason, change := range map[string]func(*world){
		v1beta1.ReasonUnsupportedWorkload: func(w *world) { w.w.Unsupported = "a Deployment of the type Recreate has no batches" },
		v1beta1.ReasonControlledByOther:   func(w *world) { w.w.Other = "other" },
		v1beta1.ReasonUnsupportedWorkload + " ": func(w *world) {
			w.release.Spec.ReleasePlan.RollingStyle = v1beta1.BlueGreenRollingStyle
		},
	} {
		w := newWorld(t, "apps/v1", "StatefulSet", 4, "1")
		w.w.Controlled = false
		change(w)
		before := w.release.Status
		d := w.pass()
		c := find(d.Status.Conditions, v1beta1.BatchReleaseStalled)
		if d.Act.any() || c.Status != corev1.ConditionTrue || c.Reason != strings.TrimSpace(reason) || d.Status.Message == "" {
			t.Errorf("%s: %+v %+v", reason, d.Act, d.Status)
		}
		if events := Events(&before, &d.Status); len(events) != 1 || !events[0].Warning {
			t.Errorf("%s: events %+v", reason, events)
		}
		if events := Events(&d.Status, &d.Status); len(events) != 0 {
			t.Errorf("%s is told again: %+v", reason, events)
		}
	}
}

func TestABatchWithoutProgressStalls(t *testing.T) {
	w := newWorld(t, "apps/v1", "StatefulSet", 4, "2")
	w.pass()
	w.pass()
	w.w.Ready, w.w.Unready = 1, []string{"web-3: container main: it has not started yet (ImagePullBackOff)"}
	at := func(after time.Duration) Decision {
		d := Plan(w.release, Snapshot{Now: now.Add(after), Workload: w.w})
		w.release.Status = d.Status
		return d
	}
	if d := at(time.Minute); find(d.Status.Conditions, v1beta1.BatchReleaseStalled).Status == corev1.ConditionTrue || d.After <= 0 {
		t.Errorf("too early: %+v", d)
	}
	d := at(12 * time.Minute)
	c := find(d.Status.Conditions, v1beta1.BatchReleaseStalled)
	if c.Status != corev1.ConditionTrue || c.Reason != v1beta1.ReasonDeadlineExceeded || !strings.Contains(c.Message, "web-3: container main") {
		t.Errorf("got %+v", c)
	}
	w.w.Ready = 2
	if d := at(13 * time.Minute); find(d.Status.Conditions, v1beta1.BatchReleaseStalled).Status == corev1.ConditionTrue {
		t.Errorf("stalled after progress: %+v", d.Status)
	}
}

func TestADeadlineOfTheOrder(t *testing.T) {
	w := newWorld(t, "apps/v1", "StatefulSet", 4, "2")
	seconds := int32(5)
	w.release.Spec.ReleasePlan.ProgressDeadlineSeconds = &seconds
	w.pass()
	w.pass()
	w.w.Ready = 1
	w.release.Status = Plan(w.release, Snapshot{Now: now, Workload: w.w}).Status
	d := Plan(w.release, Snapshot{Now: now.Add(6 * time.Second), Workload: w.w})
	if c := find(d.Status.Conditions, v1beta1.BatchReleaseStalled); c.Status != corev1.ConditionTrue {
		t.Errorf("got %+v", d.Status.Conditions)
	}
}

func TestPodsInTheWayAreDeletedWhenTheTemplateIsBack(t *testing.T) {
	w := newWorld(t, "apps/v1", "StatefulSet", 4, "2")
	w.until(0)
	w.release.Spec.ReleasePlan.BatchPartition, w.w.Revision, w.w.Blocked = nil, "v1", []string{"web-3"}
	if d := w.pass(); !d.Act.Restore {
		t.Fatalf("the strategy comes first: %+v", d.Act)
	}
	if d := Plan(w.release, Snapshot{Now: now, Workload: w.w}); !slices.Equal(d.Act.Delete, []string{"web-3"}) {
		t.Errorf("got %+v", d.Act)
	}
	w.w.Blocked = nil
	if d := w.pass(); d.Status.Phase != v1beta1.BatchReleasePhaseCompleted {
		t.Errorf("got %+v", d.Status)
	}
}

func TestADeploymentIsGivenBackWhenItsControllerHasCaughtUp(t *testing.T) {
	w := newWorld(t, "apps/v1", "Deployment", 4, "2")
	w.until(0)
	w.release.Spec.ReleasePlan.BatchPartition = nil
	view := *w.w.Rolling
	w.w.Rolling = &view
	view.CaughtUp = false
	if d := Plan(w.release, Snapshot{Now: now, Workload: w.w}); d.Act.any() || !d.Moving {
		t.Errorf("got %+v", d)
	}
	view.Refused = true
	if d := Plan(w.release, Snapshot{Now: now, Workload: w.w}); !d.Act.Restore {
		t.Errorf("pods that cannot be made hold it up: %+v", d)
	}
}

func TestAReleaseThatIsEndedEarlyMayStayHeld(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world)
		keep   bool
	}{
		"deleted":          {func(w *world) { w.release.DeletionTimestamp, w.w.InRelease = &metav1.Time{Time: now}, false }, true},
		"ended at once":    {func(*world) {}, true},
		"completed":        {func(w *world) { w.release.Spec.ReleasePlan.FinalizingPolicy = v1beta1.WaitResumeFinalizingPolicyType }, false},
		"template is back": {func(w *world) { w.w.Revision = "v1" }, false},
	} {
		w := newWorld(t, "apps/v1", "StatefulSet", 4, "2")
		w.until(0)
		w.release.Spec.ReleasePlan.BatchPartition = nil
		tc.change(w)
		d := Plan(w.release, Snapshot{Now: now, Workload: w.w, Keeps: true})
		if !d.Act.Restore || d.Act.Keep != tc.keep {
			t.Errorf("%s: %+v", name, d.Act)
		}
	}
}

func TestAReleaseOfOpenKruiseGoesOn(t *testing.T) {
	for name, ended := range map[string]bool{"in a batch": false, "at its end": true} {
		w := newWorld(t, "apps/v1", "Deployment", 4, "1", "100%")
		w.w.Controlled, w.w.Foreign = false, true
		w.release.Status = v1beta1.BatchReleaseStatus{Phase: v1beta1.BatchReleasePhaseProgressing, UpdateRevision: "7d4f", StableRevision: "5c9b"}
		if ended {
			w.release.Spec.ReleasePlan.BatchPartition = nil
			if d := w.pass(); !d.Act.Restore {
				t.Errorf("%s: %+v", name, d.Act)
			}
			continue
		}
		w.pass()
		if d := w.pass(); !d.Act.Control || d.Status.StableRevision != "v1" {
			t.Errorf("%s: %+v %+v", name, d.Act, d.Status)
		}
		w.w.Controlled, w.w.Foreign = true, false
		w.until(0)
	}
}
