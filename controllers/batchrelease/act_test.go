// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package batchrelease

import (
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/batchrelease/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/rolling"
)

// TestWritesTell: a write to the workload names its event when it fails, and a deleted pod has one.
func TestWritesTell(t *testing.T) {
	row, _ := rollable.Of("apps/v1", "StatefulSet")
	o := &observed{
		row: row,
		object: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": map[string]any{"name": "web", "namespace": "shop", "resourceVersion": "7"}, "spec": map[string]any{},
		}},
		pods: []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}}, {ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"}}},
	}
	moved := o.patch(stepMove, nil, nested(2, row.Partition...))
	if len(moved) != 1 || moved[0].Verb != planning.VerbPatch || moved[0].Kind.Kind != "StatefulSet" || moved[0].Failure.Reason != "FailedUpdate" {
		t.Errorf("a partition is written by %+v", moved)
	}
	deleted := o.actions(&v1beta1.BatchRelease{}, plan.Decision{Act: plan.Act{Delete: []string{"web-1"}}})
	if len(deleted) != 1 || deleted[0].Verb != planning.VerbDelete || deleted[0].Object.GetName() != "web-1" || !deleted[0].ExactVersion || deleted[0].Success.Reason != "PodDeleted" {
		t.Errorf("a pod is deleted by %+v", deleted)
	}
}

// TestCanariesTell: who makes, scales or deletes a canary Deployment says so. One of OpenKruise's first loses its finalizer.
func TestCanariesTell(t *testing.T) {
	row, _ := rollable.Of("apps/v1", "Deployment")
	named := func(name string, finalizers ...string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Finalizers: finalizers}}
	}
	o := &observed{
		row: row, canary: named("web-canary-1"), snapshot: plan.Snapshot{Canary: &plan.Canary{}},
		canaries: []*appsv1.Deployment{named("web-canary-0"), named("web-x7k2p", shared.FinalizerCanary)},
	}
	made := o.size(2)
	if len(made) != 1 || made[0].Verb != planning.VerbCreate || made[0].Success.Reason != "CanaryCreated" || made[0].Failure.Reason != "FailedCanary" {
		t.Errorf("it is made by %+v", made)
	}
	o.snapshot.Canary.Name = "web-canary-0"
	if scaled := o.size(3); len(scaled) != 1 || scaled[0].Verb != planning.VerbPatch || scaled[0].Success.Reason != "" || scaled[0].Object.GetName() != "web-canary-0" {
		t.Errorf("it is scaled by %+v", scaled)
	}
	gone := o.drop([]string{"web-canary-0", "web-x7k2p"})
	if len(gone) != 2 || gone[0].Verb != planning.VerbDelete || gone[0].Success.Reason != "CanaryDeleted" || gone[1].Verb != planning.VerbPatch || gone[1].Success.Reason != "" {
		t.Errorf("they are deleted by %+v", gone)
	}
}

// A Deployment that stays held, and one that goes on, have the numbers of the user again.
func TestTheNumbersOfTheUserComeBack(t *testing.T) {
	row, _ := rollable.Of("apps/v1", "Deployment")
	surge, unavailable := intstr.FromString("30%"), intstr.FromInt32(0)
	own := rolling.Numbers{MaxSurge: &surge, MaxUnavailable: &unavailable, MinReadySeconds: 7, ProgressDeadlineSeconds: ptr.To[int32](60)}
	o := &observed{row: row, deployment: &appsv1.Deployment{}, numbers: own, snapshot: plan.Snapshot{Workload: &plan.Workload{Rolling: &rolling.View{Replicas: 4}}}}
	for _, keep := range []bool{true, false} {
		spec := o.restored(keep)
		strategy, _ := spec["strategy"].(fields)
		rollingUpdate, _ := strategy["rollingUpdate"].(fields)
		if rollingUpdate["maxSurge"] != &surge || rollingUpdate["maxUnavailable"] != &unavailable || spec["minReadySeconds"] != int32(7) || spec["paused"] != keep {
			t.Errorf("held %t: %v", keep, spec)
		}
	}
}

// A CloneSet as OpenKruise leaves it has the numbers of the user again, and keeps its new pods until the end.
func TestTheNumbersOfACloneSetComeBack(t *testing.T) {
	o := &observed{beside: true, object: &unstructured.Unstructured{}, snapshot: plan.Snapshot{Workload: &plan.Workload{Facts: rollable.Facts{Revision: "web-2", Replicas: 3, Updated: 2}}}}
	o.row, _ = rollable.Of("apps.kruise.io/v1beta1", "CloneSet")
	o.object.SetAnnotations(map[string]string{shared.AnnotationOriginal: `{"maxUnavailable":1,"maxSurge":"50%","minReadySeconds":7}`})
	for partition, spec := range map[any]fields{"100%": o.braked(), nil: o.restored(false)} {
		strategy, _ := spec["updateStrategy"].(fields)
		rollingUpdate, _ := strategy["rollingUpdate"].(fields)
		if spec["minReadySeconds"] != int32(7) || *rollingUpdate["maxSurge"].(*intstr.IntOrString) != intstr.FromString("50%") || *rollingUpdate["maxUnavailable"].(*intstr.IntOrString) != intstr.FromInt32(1) || rollingUpdate["partition"] != partition {
			t.Errorf("the partition %v: %v", partition, spec)
		}
	}
	if note := o.original(); note != (rollable.Twin{Revision: "web-2", Pods: 2}).Encode() {
		t.Errorf("the note is %v", note)
	}
	o.beside = false
	if spec := o.restored(false); spec["minReadySeconds"] != nil {
		t.Errorf("in another style: %v", spec)
	}
}

// TestDecisionsInOnePass: cursors that nothing is done for are not stored, and a batch that is ready is.
func TestDecisionsInOnePass(t *testing.T) {
	row, _ := rollable.Of("apps/v1", "StatefulSet")
	release := &v1beta1.BatchRelease{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	release.Spec.ReleasePlan.Batches = []v1beta1.ReleaseBatch{{CanaryReplicas: intstr.FromInt32(1)}, {CanaryReplicas: intstr.FromInt32(3)}}
	release.Spec.ReleasePlan.BatchPartition = ptr.To[int32](1)
	w := &plan.Workload{Workload: row, Facts: rollable.Facts{Settled: true, Replicas: 3, Revision: "v2", Stable: "v1", Kept: 3, Ordered: true}}
	s := plan.Snapshot{Now: time.Unix(1, 0), Workload: w}

	taken := decide(release, s)
	if taken.Status.Phase != v1beta1.BatchReleasePhasePreparing || !taken.Act.Control {
		t.Errorf("a new release is %s, and does %+v", taken.Status.Phase, taken.Act)
	}
	w.Controlled, release.Status = true, taken.Status
	begun := decide(release, s)
	if begun.Status.CanaryStatus.CurrentBatchState != v1beta1.BatchStateUpgrading || begun.Act.Partition == nil || *begun.Act.Partition != 1 && *begun.Act.Partition != 2 {
		t.Errorf("the first batch is %+v, and does %+v", begun.Status.CanaryStatus, begun.Act)
	}
	release.Status = begun.Status
	w.Kept, w.Updated, w.Ready = *begun.Act.Partition, 3-*begun.Act.Partition, 3-*begun.Act.Partition
	if done := decide(release, s); done.Status.CanaryStatus.CurrentBatchState != v1beta1.BatchStateReady || done.Status.CanaryStatus.CurrentBatch != begun.Status.CanaryStatus.CurrentBatch {
		t.Errorf("a batch that is ready is %+v", done.Status.CanaryStatus)
	} else if release.Status = done.Status; decide(release, s).Act.Partition == nil {
		t.Error("the next batch does not begin")
	}
}

// TestAnAutoscalerKeepsTheShareOfTheBatch: a CloneSet scaled in a batch has as many new pods as the batch allows of its new size, give or
// take the one of rounding.
func TestAnAutoscalerKeepsTheShareOfTheBatch(t *testing.T) {
	row, _ := rollable.Of("apps.kruise.io/v1beta1", "CloneSet")
	for _, c := range []struct{ step, before, after, most int }{
		{1, 10, 28, 3}, {25, 10, 20, 6}, {30, 7, 70, 31}, {33, 150, 300, 100}, {50, 5, 50, 30}, {99, 10, 20, 20}, {1, 100, 10, 1},
	} {
		release := &v1beta1.BatchRelease{}
		release.Spec.ReleasePlan.Batches = []v1beta1.ReleaseBatch{{CanaryReplicas: intstr.FromString(strconv.Itoa(c.step) + "%")}}
		o := &observed{row: row, snapshot: plan.Snapshot{Workload: &plan.Workload{Facts: rollable.Facts{Replicas: c.before}}}}
		kept := o.partition(release, 0, c.before-row.Limit(release.Spec.ReleasePlan.Batches[0].CanaryReplicas, c.before))
		scaled := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"replicas": int64(c.after), "updateStrategy": map[string]any{"rollingUpdate": map[string]any{"partition": kept}},
		}}}
		if updated := c.after - row.FactsOf(scaled).Kept; updated > c.most || updated < c.after*c.step/100 {
			t.Errorf("%d%% of %d, then %d pods, at the partition %v: %d are new", c.step, c.before, c.after, kept, updated)
		}
	}
}

// TestUnreadyPodsOfThePartitionStay: with reserved or first ordinals, pods that a partition keeps have higher numbers than it.
func TestUnreadyPodsOfThePartitionStay(t *testing.T) {
	for version, want := range map[string]int{"apps.kruise.io/v1beta1": 0, "apps/v1": 1} {
		row, _ := rollable.Of(version, "StatefulSet")
		labels := map[string]string{appsv1.ControllerRevisionHashLabelKey: "web-1"}
		o := &observed{row: row, object: &unstructured.Unstructured{Object: map[string]any{}}, pods: []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web-100", Labels: labels}}}}
		o.object.SetName("web")
		o.snapshot.Workload = &plan.Workload{Workload: row, Facts: rollable.Facts{Kept: 4, Revision: "web-2", Stable: "web-1"}}
		if o.blocked(); len(o.snapshot.Workload.Blocked) != want {
			t.Errorf("%s: deleted are %v", version, o.snapshot.Workload.Blocked)
		}
	}
}

// TestPodsOfADaemonSetWithinMinReadySeconds: they are soon ready, and looked at again then.
func TestPodsOfADaemonSetWithinMinReadySeconds(t *testing.T) {
	now := time.Now()
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-10 * time.Second))},
	}}}
	for minReady, soon := range map[time.Duration]bool{0: false, 5 * time.Second: false, time.Minute: true} {
		o := &observed{pods: []*corev1.Pod{pod}, snapshot: plan.Snapshot{Now: now}}
		all := o.daemons("web-2", minReady)
		if len(all) != 1 || all[0].Ready == soon || all[0].Soon != soon || (o.again == 50*time.Second) != soon {
			t.Errorf("minReadySeconds %s: %+v, again in %s", minReady, all, o.again)
		}
	}
}

// TestAReleaseOfAPausedCloneSetMovesItsPods: the release says when, as with a Deployment that its user has paused.
func TestAReleaseOfAPausedCloneSetMovesItsPods(t *testing.T) {
	row, _ := rollable.Of("apps.kruise.io/v1beta1", "CloneSet")
	strategy := func(paused bool) *observed {
		return &observed{row: row, object: &unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"updateStrategy": map[string]any{"rollingUpdate": map[string]any{"partition": "100%", "paused": paused}}},
		}}}
	}
	for _, kept := range []int{0, 4} {
		for _, paused := range []bool{true, false} {
			o := strategy(paused)
			o.snapshot.Workload = &plan.Workload{Workload: row, Facts: rollable.Facts{Replicas: 4, Kept: kept}}
			for partition, spec := range map[any]fields{"100%": o.braked(), nil: o.restored(false)} {
				updateStrategy, _ := spec["updateStrategy"].(fields)
				rollingUpdate, _ := updateStrategy["rollingUpdate"].(fields)
				still, written := rollingUpdate["paused"]
				if written != paused || still == true || rollingUpdate["partition"] != partition {
					t.Errorf("paused %v, %d kept: written is %v", paused, kept, spec)
				}
			}
		}
	}
}
