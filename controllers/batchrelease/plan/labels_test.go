// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
)

// labeled passes with labels until a batch is ready. has says of each pod if it has the version.
func (w *world) labeled(batch int32, has func(pod int) bool) {
	w.Helper()
	known := map[string]NewPod{}
	for _, pod := range w.w.New {
		known[pod.Name] = pod
	}
	for range 50 {
		w.w.New = nil
		for i := range w.w.Replicas {
			if name := fmt.Sprintf("web-%02d", i); has(i) {
				pod := known[name]
				pod.Name = name
				w.w.New = append(w.w.New, pod)
			}
		}
		w.w.Updated = len(w.w.New)
		w.w.Ready = w.w.Updated
		d := Plan(w.release, Snapshot{Now: now, Workload: w.w, Labels: true})
		w.release.Status = d.Status
		if d.Act.Partition != nil {
			w.w.Kept = *d.Act.Partition
		}
		for _, label := range d.Label {
			pod := known[label.Name]
			if label.NoNeed {
				pod.NoNeed = w.release.Spec.ReleasePlan.RolloutID
			} else {
				pod.ID, pod.Batch = w.release.Spec.ReleasePlan.RolloutID, label.Batch
			}
			known[label.Name] = pod
		}
		status := d.Status.CanaryStatus
		if status.CurrentBatch == batch && status.CurrentBatchState == v1beta1.BatchStateReady {
			return
		}
	}
	w.Fatalf("batch %d is not ready: %+v", batch, w.release.Status)
}

// above: pods from the partition on have the version, and the first ones that had it before.
func (w *world) above(before int) func(int) bool {
	return func(pod int) bool { return pod < before || pod >= w.w.Kept }
}

// counted: a partition without an order lets so many pods go, those that had the version before among them.
func (w *world) counted(before int) func(int) bool {
	return func(pod int) bool { return pod < max(before, w.w.Replicas-w.w.Kept) }
}

// batches counts the pods of a release by their batch; 0 is without one.
func (w *world) batches() map[int]int {
	count := map[int]int{}
	for _, pod := range w.w.New {
		if pod.ID != w.release.Spec.ReleasePlan.RolloutID {
			pod.Batch = 0
		}
		count[pod.Batch]++
	}
	return count
}

func (w *world) same(batches map[int]int) {
	w.Helper()
	if got := w.batches(); fmt.Sprint(got) != fmt.Sprint(batches) {
		w.Errorf("pods by batch: %v, want %v", got, batches)
	}
}

func TestPodsHaveTheNumberOfTheirBatch(t *testing.T) {
	w := newWorld(t, "apps.kruise.io/v1beta1", "CloneSet", 10, "1", "50%", "100%")
	w.release.Spec.ReleasePlan.RolloutID = "r1"
	w.w.Kept = 10
	for batch, want := range []map[int]int{{1: 1}, {1: 1, 2: 4}, {1: 1, 2: 4, 3: 5}} {
		w.order(int32(batch))
		w.labeled(int32(batch), w.above(0))
		w.same(want)
	}
}

// Example E9 of the specification.
func TestARolloutIDAloneLabelsPodsBatchByBatch(t *testing.T) {
	w := newWorld(t, "apps.kruise.io/v1beta1", "CloneSet", 4, "1", "100%")
	w.release.Spec.ReleasePlan.RolloutID = "r1"
	w.w.Revision, w.w.Kept = "v1", 0
	w.labeled(0, w.above(4))
	w.same(map[int]int{0: 3, 1: 1})
	w.order(1)
	w.labeled(1, w.above(4))
	w.same(map[int]int{1: 1, 2: 3})
	w.release.Spec.ReleasePlan.RolloutID = "r2"
	w.order(0)
	w.labeled(0, w.above(4))
	w.same(map[int]int{0: 3, 1: 1})
}

// Example E8 of the specification.
func TestARollbackInBatches(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		w := newWorld(t, "apps.kruise.io/v1beta1", "CloneSet", 20, "20%", "50%", "100%")
		w.w.Ordered = ordered
		w.release.ObjectMeta = metav1.ObjectMeta{Annotations: map[string]string{shared.AnnotationRollbackInBatch: "true"}}
		w.release.Spec.ReleasePlan.RolloutID = "back"
		w.w.Revision, w.w.Kept = "v1", 20
		for batch, want := range []struct {
			updated int
			batches map[int]int
		}{{12, map[int]int{0: 8, 1: 4}}, {15, map[int]int{0: 5, 1: 4, 2: 6}}, {20, map[int]int{1: 4, 2: 6, 3: 10}}} {
			w.order(int32(batch))
			has := w.counted(10)
			if ordered {
				has = w.above(10)
			}
			w.labeled(int32(batch), has)
			if w.w.Updated != want.updated || *w.release.Status.CanaryStatus.NoNeedUpdateReplicas != 10 {
				t.Errorf("after batch %d %d pods have the version: %+v", batch, w.w.Updated, w.release.Status.CanaryStatus)
			}
			w.same(want.batches)
		}
	}
}
