// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
)

// settled is a simulation whose UnitedDeployment is up.
func settled(t *testing.T, changes ...string) *simulation {
	t.Helper()
	w := newSimulation(t, changes...)
	w.rest()
	return w
}

// planned is what a plan does, after the snapshot was changed: one text for each action.
func (w *simulation) planned(change func(*Snapshot)) ([]string, Decision) {
	w.t.Helper()
	spec := united.Parse(w.set)
	s := w.snapshot(spec)
	if change != nil {
		change(&s)
	}
	d := Plan(spec, s)
	var all []string
	for _, a := range d.Actions {
		all = append(all, string(a.Step)+" "+a.Object.GetName())
	}
	return all, d
}

func TestAtRestNothingIsPlanned(t *testing.T) {
	for name, changes := range map[string]string{"plain": "replicas: 6", "adaptive": adaptiveZones, "reserving": reservingZones} {
		t.Run(name, func(t *testing.T) {
			if actions, d := settled(t, changes).planned(nil); len(actions) > 0 || d.RecheckAfter > 0 {
				t.Errorf("planned %v, again after %s", actions, d.RecheckAfter)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	cases := map[string]struct {
		before func(*simulation)
		change func(*Snapshot)
		want   string
		fault  string
	}{
		"an edit by hand is undone": {
			before: func(w *simulation) {
				if err := unstructured.SetNestedField(w.children[0].Object, int64(9), "spec", "replicas"); err != nil {
					w.t.Fatal(err)
				}
			},
			want: "UpdateSubset shop-a",
		},
		"what others add stays": {
			before: func(w *simulation) {
				if err := unstructured.SetNestedField(w.children[0].Object, int64(9), "spec", "minReadySeconds"); err != nil {
					w.t.Fatal(err)
				}
			},
		},
		"an apply that changed nothing is not repeated": {
			before: func(w *simulation) {
				if err := unstructured.SetNestedField(w.children[0].Object, "9", "spec", "replicas"); err != nil {
					w.t.Fatal(err)
				}
			},
			change: func(s *Snapshot) {
				s.Children[0].InSync = &united.Target{Name: "shop-a", Revision: s.Update.Name, Size: 2}
			},
		},
		"a workload that OpenKruise made is applied": {
			before: func(w *simulation) { w.children[0].SetAnnotations(nil) },
			want:   "UpdateSubset shop-a",
		},
		"then its fields are made ours alone": {
			before: func(w *simulation) {
				w.children[0].SetAnnotations(map[string]string{shared.AnnotationAppliedHash: shared.Adopting})
			},
			change: func(s *Snapshot) { s.Children[0].MoveFields = []byte("[]") },
			want:   "MoveFields shop-a",
		},
		"and then it is said what was applied": {
			before: func(w *simulation) {
				w.children[0].SetAnnotations(map[string]string{shared.AnnotationAppliedHash: shared.Adopting})
			},
			want: "UpdateSubset shop-a",
		},
		"a workload that is missing": {
			before: func(w *simulation) { w.children = w.children[1:] },
			want:   "CreateSubset shop-a",
		},
		"one whose name is taken": {
			before: func(w *simulation) { w.children = w.children[1:] },
			change: func(s *Snapshot) { s.Taken["shop-a"] = true },
			want:   "CreateSubset " + united.Names("shop", "a")[1],
		},
		"one whose names are all taken": {
			before: func(w *simulation) { w.children = w.children[1:] },
			change: func(s *Snapshot) { s.Taken["shop-a"], s.Taken[united.Names("shop", "a")[1]] = true, true },
			fault:  "taken by workloads of others",
		},
		"one that is being deleted is waited for": {
			before: func(w *simulation) { w.children[0].SetDeletionTimestamp(ptr.To(metav1.NewTime(w.now))) },
		},
		"a kind that is not served": {
			before: func(w *simulation) { w.children = w.children[1:] },
			change: func(s *Snapshot) { s.Unserved[schema.GroupKind{Group: "apps.kruise.io", Kind: "CloneSet"}] = true },
			fault:  "the API server does not serve CloneSet.apps.kruise.io",
		},
		"two workloads of one subset: the older one stays": {
			before: func(w *simulation) {
				twin := w.children[0].DeepCopy()
				twin.SetName("shop-a-xyz")
				twin.SetUID("twin")
				twin.SetCreationTimestamp(metav1.NewTime(w.now))
				w.children = append(w.children, twin)
			},
			want: "DeleteSubset shop-a-xyz",
		},
		"a generated name of OpenKruise is kept": {
			before: func(w *simulation) { w.children[0].SetName("shop-a-gx7kz"); w.change("replicas: 9") },
			want:   "UpdateSubset shop-a-gx7kz, UpdateSubset shop-b, UpdateSubset shop-c",
		},
		"one that is being deleted itself does nothing": {
			before: func(w *simulation) { w.children = nil; w.set.DeletionTimestamp = ptr.To(metav1.NewTime(w.now)) },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := settled(t)
			tc.before(w)
			actions, d := w.planned(tc.change)
			if got := strings.Join(actions, ", "); got != tc.want {
				t.Errorf("planned %q, want %q", got, tc.want)
			}
			if got := d.Faults["a"]; (got == "") != (tc.fault == "") || !strings.Contains(got, tc.fault) {
				t.Errorf("fault %q, want %q", got, tc.fault)
			}
		})
	}
}

func TestUpdatesCarryTheUID(t *testing.T) {
	w := settled(t)
	w.change("replicas: 9")
	_, d := w.planned(nil)
	for _, a := range d.Actions {
		if a.Object.GetUID() == "" || a.FieldManager != shared.FieldManagerUnitedDeployment || !a.Force {
			t.Errorf("action %+v", a)
		}
	}
	if len(d.Actions) != 3 {
		t.Errorf("%d actions", len(d.Actions))
	}
}

// TestStuckPods: of a StatefulSet of apps/v1, pods at the revision before that are not ready are deleted, those that the partition keeps are not.
func TestStuckPods(t *testing.T) {
	const statefulSets = `template: {cloneSetTemplate: null, statefulSetTemplate: {metadata: {labels: {app: shop}}, spec: {serviceName: shop, template: {metadata: {labels: {app: shop}}, spec: {containers: [{name: main, image: "shop:1"}]}}}}}`
	w := settled(t, statefulSets, "replicas: 9", "updateStrategy: {manualUpdate: {partitions: {a: 1}}}")
	child := w.children[0]
	child.Object["status"] = map[string]any{
		"observedGeneration": child.GetGeneration(), "replicas": int64(3), "readyReplicas": int64(1), "updatedReplicas": int64(0), "updateRevision": "new",
	}
	var pods []corev1.Pod
	for name, ready := range map[string]bool{"shop-a-0": false, "shop-a-1": false, "shop-a-2": true} {
		pod := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, UID: types.UID(name), Labels: map[string]string{shared.LabelSubsetName: "a", shared.LabelControllerRevisionHash: "old"},
				OwnerReferences: []metav1.OwnerReference{{UID: child.GetUID(), Controller: ptr.To(true)}},
			},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
		if ready {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		pods = append(pods, pod)
	}
	spec := united.Parse(w.set)
	if needed := PodsNeeded(spec, w.snapshot(spec).Children); needed != AllPods {
		t.Errorf("the pods needed are %s", needed)
	}
	actions, _ := w.planned(func(s *Snapshot) { s.Pods = Pods(pods) })
	if got := strings.Join(actions, ", "); got != "DeletePod shop-a-1" {
		t.Errorf("planned %q", got)
	}
	if err := unstructured.SetNestedField(child.Object, "OnDelete", "spec", "updateStrategy", "type"); err != nil {
		t.Fatal(err)
	}
	if actions, _ := w.planned(func(s *Snapshot) { s.Pods = Pods(pods) }); strings.Contains(strings.Join(actions, ", "), "DeletePod") {
		t.Errorf("of pods that their user deletes, planned %v", actions)
	}
	unstructured.RemoveNestedField(child.Object, "spec", "updateStrategy", "type")
	for i := range pods {
		pods[i].Labels[shared.LabelControllerRevisionHash] = "new"
	}
	if actions, _ := w.planned(func(s *Snapshot) { s.Pods = Pods(pods) }); len(actions) > 0 {
		t.Errorf("of pods at the new revision, planned %v", actions)
	}
}

// TestKindThatIsNotServedIsLookedForAgain: nobody tells when a kind is served again.
func TestKindThatIsNotServedIsLookedForAgain(t *testing.T) {
	w := settled(t)
	w.children = nil
	_, d := w.planned(func(s *Snapshot) { s.Unserved[schema.GroupKind{Group: "apps.kruise.io", Kind: "CloneSet"}] = true })
	if len(d.Faults) != 3 || d.RecheckAfter != askAgain {
		t.Errorf("the faults are %v, again after %s", d.Faults, d.RecheckAfter)
	}
}

// TestTakenNamesAreLookedAtAgain: a workload of others triggers no pass when it goes.
func TestTakenNamesAreLookedAtAgain(t *testing.T) {
	w := settled(t)
	w.children = w.children[1:]
	names := united.Names("shop", "a")
	_, d := w.planned(func(s *Snapshot) { s.Taken[names[0]], s.Taken[names[1]] = true, true })
	if d.Faults["a"] == "" || d.RecheckAfter != askAgain {
		t.Errorf("the faults are %v, again after %s", d.Faults, d.RecheckAfter)
	}
}

// TestARemovedWorkloadThatIsTerminatingDoesNotWait: somebody deleted it, and it does not wait for replacements of its pods.
func TestARemovedWorkloadThatIsTerminatingDoesNotWait(t *testing.T) {
	w := settled(t)
	w.set.Annotations = map[string]string{shared.AnnotationSubsetRemoval: shared.SubsetRemovalAfterReplacement}
	w.change("topology: {subsets: [{name: b}, {name: c}]}")
	if _, d := w.planned(nil); len(d.Held) != 1 || d.Held[0].Reason != NoteRemoved {
		t.Errorf("held: %+v, want the workload of a", d.Held)
	}
	w.children[0].SetDeletionTimestamp(ptr.To(metav1.NewTime(w.now)))
	if actions, d := w.planned(nil); len(d.Held) > 0 || strings.Contains(strings.Join(actions, ", "), "DeleteSubset") {
		t.Errorf("held: %+v, planned %v", d.Held, actions)
	}
}

// TestARemovedSubsetGoesWhenItsReplacementsAreAvailable: pods that have just become ready may fail within minReadySeconds, and the removed subset went
// as soon as they were ready.
func TestARemovedSubsetGoesWhenItsReplacementsAreAvailable(t *testing.T) {
	w := settled(t)
	w.set.Annotations = map[string]string{shared.AnnotationSubsetRemoval: shared.SubsetRemovalAfterReplacement}
	w.change("topology: {subsets: [{name: b}, {name: c}]}")
	report := func(available int64) string {
		for _, child := range w.children[1:] {
			size, _, _ := unstructured.NestedInt64(child.Object, "spec", "replicas")
			child.Object["status"] = map[string]any{
				"observedGeneration": child.GetGeneration(), "replicas": size, "readyReplicas": size, "availableReplicas": min(available, size), "updatedReplicas": size,
			}
		}
		actions, _ := w.planned(nil)
		return strings.Join(actions, ", ")
	}
	w.pass()
	if actions := report(1); strings.Contains(actions, "DeleteSubset") {
		t.Errorf("within minReadySeconds: %s", actions)
	}
	if actions := report(9); !strings.Contains(actions, "DeleteSubset") {
		t.Errorf("when all are available: %s", actions)
	}
}

// TestUpdatedPodsAreCountedUntilTheWorkloadAnswers: what a status says of an earlier spec of a workload is counted while it is known that pods are made
// from the same template, and never otherwise.
func TestUpdatedPodsAreCountedUntilTheWorkloadAnswers(t *testing.T) {
	resize := func(w *simulation) { w.change("replicas: 9") }
	// edited is an edit of the template of a workload by hand.
	edited := func(w *simulation, value string) {
		child := w.children[0]
		child.SetGeneration(child.GetGeneration() + 1)
		if err := unstructured.SetNestedField(child.Object, value, "spec", "template", "metadata", "annotations", "by-hand"); err != nil {
			w.t.Fatal(err)
		}
	}
	const rolling, missing = appsv1beta1.ReasonUnitedDeploymentUpdating, appsv1beta1.ReasonUnitedDeploymentPodsNotReady
	cases := map[string]struct {
		change  func(*simulation)
		updated int32
		reason  string
	}{
		"scaled": {resize, 6, missing},
		"scaled twice": {func(w *simulation) {
			resize(w)
			w.pass()
			w.change("replicas: 12")
		}, 6, missing},
		"another partition":      {func(w *simulation) { w.change("updateStrategy: {manualUpdate: {partitions: {a: 1}}}") }, 6, missing},
		"another image":          {func(w *simulation) { w.change(setImage("2")) }, 0, rolling},
		"another image and size": {func(w *simulation) { w.change(setImage("2")); resize(w) }, 0, rolling},
		"another patch of one": {func(w *simulation) {
			w.change("topology: {subsets: [{name: a, patch: {spec: {hostNetwork: true}}}, {name: b}, {name: c}]}")
		}, 4, rolling},
		"another image, and back":          {func(w *simulation) { w.change(setImage("2")); w.pass(); w.pass(); w.change(setImage("1")) }, 0, rolling},
		"a spec that was not seen":         {func(w *simulation) { w.children[0].SetGeneration(w.children[0].GetGeneration() + 2) }, 4, rolling},
		"an edit by hand, which is undone": {func(w *simulation) { edited(w, "x"); resize(w) }, 4, rolling},
		"a restart of the operator":        {func(w *simulation) { resize(w); w.pass(); w.memory = NewMemory() }, 0, rolling},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := settled(t)
			w.pass()
			tc.change(w)
			w.pass() // applies it
			w.pass() // before any workload has answered
			condition, _ := conditions.Find(conditions.From(w.set.Status.Conditions), appsv1beta1.UnitedDeploymentUpdated)
			if got := w.set.Status.UpdatedReplicas; got != tc.updated || condition.Status != corev1.ConditionFalse || condition.Reason != tc.reason {
				t.Errorf("updated: %d, want %d; the condition is %s, %s: %s; want %s", got, tc.updated, condition.Status, condition.Reason, condition.Message, tc.reason)
			}
			if w.set.Status.UpdatedReadyReplicas != tc.updated {
				t.Errorf("updated and ready: %d, want %d", w.set.Status.UpdatedReadyReplicas, tc.updated)
			}
			w.rest()
			if condition, _ := conditions.Find(conditions.From(w.set.Status.Conditions), appsv1beta1.UnitedDeploymentUpdated); condition.Status != corev1.ConditionTrue {
				t.Errorf("at rest: %s", w.state())
			}
		})
	}
}

// TestAPartitionIsCutToTheSizeOfItsSubset: two subsets of 4 and 6, and a partition that is more than its subset has later.
func TestAPartitionIsCutToTheSizeOfItsSubset(t *testing.T) {
	w := settled(t, "replicas: 10", "topology: {subsets: [{name: a, replicas: 4}, {name: b, replicas: 6}]}")
	first := w.set.Status.UpdatedRevision
	states := func() string {
		var all []string
		for _, s := range w.set.Status.SubsetStatuses {
			all = append(all, fmt.Sprintf("%s %d of %d, partition %d", s.Name, s.UpdatedReplicas, s.Replicas, s.Partition))
		}
		return strings.Join(all, "; ")
	}
	w.change("updateStrategy: {manualUpdate: {partitions: {a: 4, b: 3}}}")
	w.change(setImage("2"))
	w.rest()
	if got := states(); got != "a 0 of 4, partition 4; b 3 of 6, partition 3" || w.set.Status.CurrentRevision != first {
		t.Errorf("with partitions 4 and 3: %s; the current revision is %s", got, w.set.Status.CurrentRevision)
	}
	w.change("replicas: 6")
	w.change("topology: {subsets: [{name: a, replicas: 4}, {name: b, replicas: 2}]}")
	w.rest()
	if got := states(); got != "a 0 of 4, partition 4; b 0 of 2, partition 2" {
		t.Errorf("with b scaled to 2: %s", got)
	}
	w.change("replicas: 10")
	w.change("topology: {subsets: [{name: a, replicas: 4}, {name: b, replicas: 6}]}")
	w.change("updateStrategy: {manualUpdate: {partitions: {a: 0, b: 0}}}")
	w.rest()
	if got := states(); got != "a 4 of 4, partition 0; b 6 of 6, partition 0" || w.set.Status.CurrentRevision == first || w.set.Status.CurrentRevision != w.set.Status.UpdatedRevision {
		t.Errorf("without partitions: %s; the current revision is %s of %s", got, w.set.Status.CurrentRevision, w.set.Status.UpdatedRevision)
	}
}

// TestTimersAreArmed: where time alone changes the answer, the plan is looked at again then.
func TestTimersAreArmed(t *testing.T) {
	w := settled(t, adaptiveZones)
	w.down("b")
	w.work()
	w.now = w.now.Add(10 * time.Second)
	if _, d := w.planned(nil); d.RecheckAfter != 20*time.Second {
		t.Errorf("before the pods have timed out: again after %s, want 20s", d.RecheckAfter)
	}
	w.now = w.now.Add(20 * time.Second)
	w.rest()
	w.now = w.now.Add(time.Minute)
	if _, d := w.planned(nil); d.RecheckAfter != 4*time.Minute {
		t.Errorf("while the subset has no room: again after %s, want 4m", d.RecheckAfter)
	}
}

// TestPodsThatAreToComeAreLookedAt: with rescheduleCriticalSeconds 0, pods that find no node count at once, and nobody tells of them.
func TestPodsThatAreToComeAreLookedAt(t *testing.T) {
	for name, zones := range map[string]string{"adaptive": adaptiveZones, "reserving": reservingZones} {
		for seconds, want := range map[int32]time.Duration{0: time.Second, 7: 7 * time.Second} {
			t.Run(fmt.Sprintf("%s, after %d s", name, seconds), func(t *testing.T) {
				w := newSimulation(t, zones, fmt.Sprintf("topology: {scheduleStrategy: {adaptive: {rescheduleCriticalSeconds: %d}}}", seconds))
				w.pass()
				if _, d := w.planned(nil); d.RecheckAfter != want {
					t.Errorf("again after %s, want %s", d.RecheckAfter, want)
				}
			})
		}
	}
}

// refusedFor is the outcome of a pass in which a request fails for the first time, and another one that has failed for so long.
func refusedFor(d time.Duration) func(now time.Time) planning.Outcome {
	return func(now time.Time) planning.Outcome {
		return planning.Outcome{Failures: []planning.Failure{
			{Step: StepUpdateSubset, Slot: "b", Message: "a conflict", Since: now},
			{Step: StepUpdateSubset, Slot: "c", Message: "no right", Since: now.Add(-d)},
		}}
	}
}

// TestStatusTellsTheTruth: nothing is said to be complete while something needs the user or is under way.
func TestStatusTellsTheTruth(t *testing.T) {
	cases := map[string]struct {
		change  func(*simulation)
		outcome func(now time.Time) planning.Outcome
		// disabled says that the kind of the workloads is switched off. rests is the reason for which nothing is under way.
		disabled, stalled bool
		rests, message    string
	}{
		"a workload is stalled": {
			change: func(w *simulation) {
				w.children[1].Object["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "Stalled", "status": "True", "message": "image cannot be pulled"}}
			},
			stalled: true, message: "subset b: CloneSet shop-b: image cannot be pulled",
		},
		"a request was refused": {
			outcome: refusedFor(10 * time.Second),
			message: "subset b: a conflict; subset c: no right",
		},
		"a request has been refused for half a minute": {
			outcome: refusedFor(30 * time.Second),
			stalled: true, message: "subset b: a conflict; subset c: no right",
		},
		"a workload has not answered": {
			change:  func(w *simulation) { w.children[0].SetGeneration(7) },
			message: "Subset a is being changed.",
		},
		"somebody deletes a workload, and a finalizer holds it": {
			change:  func(w *simulation) { w.children[0].SetDeletionTimestamp(ptr.To(metav1.NewTime(w.now))) },
			message: "Subset a: CloneSet shop-a is being deleted, and is created again when it is gone.",
		},
		"updates are paused": {
			change: func(w *simulation) {
				w.change(`template: {cloneSetTemplate: {spec: {updateStrategy: {rollingUpdate: {paused: true}}}}}`)
				w.change(setImage("2"))
				w.rest()
			},
			rests: appsv1beta1.ReasonPaused, message: "Subset a: 0 of 2 pods are updated: its updates are paused; subset b: 0 of 2 pods are updated: its updates are paused; " +
				"subset c: 0 of 2 pods are updated: its updates are paused.",
		},
		"pods are updated when somebody deletes them": {
			change: func(w *simulation) {
				w.change(`template: {cloneSetTemplate: {spec: {updateStrategy: {type: OnDelete}}}}`)
				w.change("topology: {subsets: [{name: a}]}")
				w.rest()
				w.change(setImage("2"))
				w.rest()
			},
			rests: appsv1beta1.ReasonOnDelete, message: "Subset a: 0 of 6 pods are updated: with OnDelete, a pod is updated when somebody deletes it.",
		},
		"the kind of the workloads is switched off, and what they say is old": {
			disabled: true, stalled: true,
			message: "subset a: nothing is done for CloneSet shop-a: its kind is switched off in the operator; " +
				"subset b: nothing is done for CloneSet shop-b: its kind is switched off in the operator; " +
				"subset c: nothing is done for CloneSet shop-c: its kind is switched off in the operator",
		},
		"pods are not ready": {
			change:  func(w *simulation) { w.children[0].Object["status"].(map[string]any)["readyReplicas"] = int64(1) },
			message: "Subset a: 1 of 2 pods are ready.",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := settled(t)
			if tc.change != nil {
				tc.change(w)
			}
			spec := united.Parse(w.set)
			s := w.snapshot(spec)
			s.Disabled[schema.GroupKind{Group: "apps.kruise.io", Kind: "CloneSet"}] = tc.disabled
			var outcome planning.Outcome
			if tc.outcome != nil {
				outcome = tc.outcome(s.Now)
			}
			status := Status(spec, s, Plan(spec, s), outcome)
			is := map[appsv1beta1.UnitedDeploymentConditionType]appsv1beta1.UnitedDeploymentCondition{}
			for _, c := range status.Conditions {
				is[c.Type] = c
			}
			reconciling, stalled := is[appsv1beta1.UnitedDeploymentReconciling], is[appsv1beta1.UnitedDeploymentStalled]
			if (stalled.Status == corev1.ConditionTrue) != tc.stalled || (reconciling.Status == corev1.ConditionTrue) != (!tc.stalled && tc.rests == "") ||
				reconciling.Message != tc.message || tc.rests != "" && reconciling.Reason != tc.rests {
				t.Errorf("Reconciling %+v, Stalled %+v", reconciling, stalled)
			}
		})
	}
	w := settled(t)
	if status := w.set.Status; status.CurrentRevision != status.UpdatedRevision || status.UpdateStatus.UpdatedRevision != status.UpdatedRevision ||
		status.SubsetReplicas["c"] != 2 || status.UpdateStatus.CurrentPartitions["c"] != 0 {
		t.Errorf("the status is %+v", status)
	}
}

func TestEventsOfWorkloads(t *testing.T) {
	cases := map[string]struct {
		before           func(*simulation)
		success, failure string
	}{
		"one that is missing": {
			before:  func(w *simulation) { w.children = w.children[1:] },
			success: "SuccessfulCreateSubset", failure: "FailedCreateSubset",
		},
		"one that was edited": {
			before: func(w *simulation) {
				if err := unstructured.SetNestedField(w.children[0].Object, int64(9), "spec", "replicas"); err != nil {
					w.t.Fatal(err)
				}
			},
			failure: "FailedUpdateSubset", // a change that succeeds shows in the workload's own events
		},
		"one whose subset is gone": {
			before:  func(w *simulation) { w.set.Spec.Topology.Subsets = w.set.Spec.Topology.Subsets[1:] },
			success: "SuccessfulDeleteSubset", failure: "FailedDeleteSubset",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := settled(t, "replicas: 6")
			tc.before(w)
			_, d := w.planned(nil)
			i := slices.IndexFunc(d.Actions, func(a planning.Action) bool { return a.Object.GetName() == "shop-a" })
			if i < 0 {
				t.Fatalf("nothing is done with shop-a: %v", d.Actions)
			}
			a := d.Actions[i]
			if a.Success.Reason != tc.success || a.Failure.Reason != tc.failure || a.Success.Warning || !a.Failure.Warning {
				t.Errorf("success %+v, failure %+v", a.Success, a.Failure)
			}
			for _, e := range []planning.Event{a.Success, a.Failure} {
				if e.Reason != "" && (!strings.Contains(e.Message, "shop-a") || !strings.Contains(e.Message, "subset a")) {
					t.Errorf("%s does not name the workload and its subset: %s", e.Reason, e.Message)
				}
			}
		})
	}
}

// A subset whose pods begin to find no node is announced, once.
// A workload says that it is stalled when its pods find no node for long. Where others stand in for all of them, that is how the set is meant to be.
func TestASubsetThatOthersStandInForIsNotStalled(t *testing.T) {
	w := newSimulation(t, reservingZones)
	w.full["a"] = true
	w.rest()
	w.after(30 * time.Second)
	stall := func(reason, why string) (corev1.ConditionStatus, string) {
		for _, child := range w.children {
			if child.GetLabels()[shared.LabelSubsetName] == "a" {
				child.Object["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "Stalled", "status": "True", "reason": reason, "message": why}}
			}
		}
		spec := united.Parse(w.set)
		s := w.snapshot(spec)
		status := Status(spec, s, Plan(spec, s), planning.Outcome{})
		stalled, _ := conditions.Find(conditions.From(status.Conditions), appsv1beta1.UnitedDeploymentStalled)
		return stalled.Status, stalled.Message
	}
	if w.set.Status.ReservedPods == 0 {
		t.Fatalf("nothing is reserved:\n%s", w.state())
	}
	if status, message := stall("Unschedulable", "no node"); status != corev1.ConditionFalse {
		t.Errorf("stalled: %s", message)
	}
	// Others stand in for a pod that has found a node and whose image cannot be pulled there. It stays away until its user does something.
	if status, message := stall("ImagePullFailed", "ImagePullBackOff"); status != corev1.ConditionTrue || !strings.Contains(message, "ImagePullBackOff") {
		t.Errorf("with an image that cannot be pulled Stalled is %s: %s", status, message)
	}
}

// Two sets may have equal selectors and names of subsets. What the other one's pods do is nothing to this one.
func TestPodsOfAnotherSetDoNotCount(t *testing.T) {
	deployment, cloneSet := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	deployment.SetName("shop-a")
	deployment.SetUID("1")
	cloneSet.SetName("shop-b")
	cloneSet.SetUID("2")
	ours := ownPods([]Child{
		{Object: deployment, Adapter: united.Adapter{Kind: schema.GroupVersionKind{Kind: "Deployment"}}},
		{Object: cloneSet, Adapter: united.Adapter{Kind: schema.GroupVersionKind{Kind: "CloneSet"}}},
	})
	owned := func(kind, name, uid string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID(uid), Controller: ptr.To(true)}}}}
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"of a CloneSet of the set":                        {owned("CloneSet", "shop-b", "2"), true},
		"of another CloneSet":                             {owned("CloneSet", "other-b", "3"), false},
		"of one that had the name before":                 {owned("CloneSet", "shop-b", "0"), false},
		"of a ReplicaSet of a Deployment":                 {owned("ReplicaSet", "shop-a-6d5f", "7"), true},
		"of a ReplicaSet of another Deployment":           {owned("ReplicaSet", "shop-a-x-6d5f", "7"), false},
		"of a ReplicaSet with the name of the Deployment": {owned("ReplicaSet", "shop-a", "7"), false},
		"without an owner":                                {&corev1.Pod{}, true},
	} {
		if got := ours(tc.pod); got != tc.want {
			t.Errorf("a pod %s counts: %v", name, got)
		}
	}
}

// TestPodsThatThePartitionKeeps: a pod at the revision before that is not ready has replacements while the update of its subset is stuck, and not
// when the partition, or a pause, keeps it there.
func TestPodsThatThePartitionKeeps(t *testing.T) {
	const kept, going, paused = "updateStrategy: {manualUpdate: {partitions: {a: 3}}}", "updateStrategy: {manualUpdate: {partitions: {a: 2}}}",
		"template: {cloneSetTemplate: {spec: {updateStrategy: {rollingUpdate: {paused: true}}}}}"
	const normal, reserved = "normal", "reserved"
	cases := map[string]struct {
		spec string
		// is is the pod before: whether it has replacements, is ready, and for how long; lost says that it finds no node.
		is    string
		ready time.Duration
		lost  bool
		// behind says that the workload has not updated the pods that it may.
		behind bool
		want   string
		// why is what the condition says.
		why string
	}{
		"one that is not ready for a moment":                    {spec: kept, is: normal, want: normal},
		"one that is not ready while updates are paused":        {spec: paused, is: normal, want: normal},
		"one that finds no node":                                {spec: kept, is: normal, lost: true, want: reserved, why: messageNoNode},
		"one whose update is stuck":                             {spec: going, is: normal, behind: true, want: reserved, why: messageStandIn},
		"one that had replacements and has just become ready":   {spec: kept, is: reserved, ready: time.Minute, want: reserved, why: messageStandIn},
		"one that had replacements and has been ready for long": {spec: kept, is: reserved, ready: 5 * time.Minute, want: normal},
		"one that had replacements and is not ready":            {spec: kept, is: reserved, want: reserved, why: messageStandIn},
		"one that had replacements and will be updated":         {spec: going, is: reserved, ready: 5 * time.Minute, behind: true, want: reserved, why: messageStandIn},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := settled(t, reservingZones, tc.spec)
			w.change(setImage("2"))
			w.rest()
			w.after(10 * time.Minute)
			child := w.children[0]
			if tc.behind {
				child.Object["status"].(map[string]any)["updatedReplicas"] = int64(0)
			}
			i := slices.IndexFunc(w.pods, func(p *corev1.Pod) bool {
				return p.Labels[shared.LabelSubsetName] == "a" && p.Spec.Containers[0].Image == "shop:1"
			})
			pod := w.pods[i]
			pod.Labels[shared.LabelReservedPod] = fmt.Sprint(tc.is == reserved)
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
			switch {
			case tc.lost:
				pod.Spec.NodeName, pod.Status.Phase = "", corev1.PodPending
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
			case tc.ready > 0:
				pod.Status.Conditions[0].Status, pod.Status.Conditions[0].LastTransitionTime = corev1.ConditionTrue, metav1.NewTime(w.now.Add(-tc.ready))
			}
			_, d := w.planned(nil)
			is, why := normal, ""
			if d.rooms[0].reserved > 0 {
				is, why = reserved, d.rooms[0].condition.Message
			}
			if is != tc.want || why != tc.why {
				t.Errorf("the pod is %s: %q, want %s: %q", is, why, tc.want, tc.why)
			}
		})
	}
}

func TestASubsetWithoutRoomIsAnnounced(t *testing.T) {
	w := settled(t)
	spec := united.Parse(w.set)
	full := *w.set.Status.DeepCopy()
	full.SubsetStatuses[1].Conditions = []appsv1beta1.UnitedDeploymentSubsetCondition{
		{Type: appsv1beta1.SubsetSchedulable, Status: corev1.ConditionFalse, Reason: appsv1beta1.ReasonReschedule},
	}
	events := Events(spec, full)
	if len(events) != 1 || events[0].Reason != "SubsetUnschedulable" || !events[0].Warning || !strings.Contains(events[0].Message, "subset b") {
		t.Errorf("events %+v", events)
	}
	full.SubsetStatuses[1].Conditions[0].Message = messageStandIn
	if events := Events(spec, full); len(events) != 1 || !strings.Contains(events[0].Message, "replacements for pods of subset b") {
		t.Errorf("of pods that have a node, events %+v", events)
	}
	w.set.Status = full
	if again := Events(united.Parse(w.set), full); len(again) > 0 {
		t.Errorf("it is announced again: %+v", again)
	}
}

// TestWhatIsInSyncIsNotComparedAgain: a workload that was found to be what it should be is rendered again when something changes that could
// make a difference, and not before. What is remembered here is a lie, so that it shows when it is believed.
func TestWhatIsInSyncIsNotComparedAgain(t *testing.T) {
	cases := map[string]struct {
		change func(w *simulation)
		want   string
	}{
		"nothing changes": {change: func(*simulation) {}},
		"its status": {change: func(w *simulation) {
			w.children[0].Object["status"] = map[string]any{"observedGeneration": w.children[0].GetGeneration(), "replicas": int64(2), "readyReplicas": int64(1)}
		}},
		"its spec":            {change: func(w *simulation) { w.children[0].SetGeneration(9) }, want: "UpdateSubset shop-a"},
		"its labels":          {change: func(w *simulation) { w.children[0].SetLabels(map[string]string{shared.LabelSubsetName: "a"}) }, want: "UpdateSubset shop-a"},
		"its annotations":     {change: func(w *simulation) { w.children[0].SetAnnotations(nil) }, want: "UpdateSubset shop-a"},
		"another workload":    {change: func(w *simulation) { w.children[0].SetUID("other") }, want: "UpdateSubset shop-a"},
		"the spec of the set": {change: func(w *simulation) { w.change("revisionHistoryLimit: 3") }, want: "UpdateSubset shop-a"},
		"its size":            {change: func(w *simulation) { w.set.Spec.Replicas = ptr.To[int32](7) }, want: "UpdateSubset shop-c"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := settled(t)
			w.pass()
			if err := unstructured.SetNestedField(w.children[0].Object, "other", "spec", "selector", "matchLabels", "app"); err != nil {
				t.Fatal(err)
			}
			tc.change(w)
			actions, _ := w.planned(func(s *Snapshot) {
				for i := range s.Children {
					w.memory.Recall(w.set.Generation, &s.Children[i])
				}
			})
			if got := strings.Join(actions, ", "); got != tc.want {
				t.Errorf("planned %q, want %q", got, tc.want)
			}
		})
	}
}

// TestPodsAreReadOnlyWhereNumbersAreNotEnough: a plain UnitedDeployment never asks for pods.
func TestPodsAreReadOnlyWhereNumbersAreNotEnough(t *testing.T) {
	waiting := func(w *simulation) {
		w.children[0].Object["status"] = map[string]any{"observedGeneration": w.children[0].GetGeneration(), "replicas": int64(2), "readyReplicas": int64(1)}
	}
	cases := map[string]struct {
		spec   string
		before func(*simulation)
		want   Needed
	}{
		"plain, all ready":         {"replicas: 6", func(*simulation) {}, NoPods},
		"plain, some not ready":    {"replicas: 6", waiting, NoPods},
		"plain, another image":     {"replicas: 6", func(w *simulation) { w.change(setImage("2")) }, NoPods},
		"adaptive, all ready":      {adaptiveZones, func(*simulation) {}, NoPods},
		"adaptive, some not ready": {adaptiveZones, waiting, PendingPods},
		"reserving":                {reservingZones, func(*simulation) {}, AllPods},
		"reserving, being deleted": {reservingZones, func(w *simulation) { w.set.DeletionTimestamp = ptr.To(metav1.NewTime(w.now)) }, NoPods},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := settled(t, tc.spec)
			tc.before(w)
			spec := united.Parse(w.set)
			if got := PodsNeeded(spec, w.snapshot(spec).Children); got != tc.want {
				t.Errorf("pods needed: %s, want %s", got, tc.want)
			}
		})
	}
}

// A StatefulSet of apps/v1 does not say why a pod does not get ready, and a Deployment does after minutes. So their pods are asked when some have not been ready for a
// while.
func TestPodsOfNativeWorkloadsSayWhyTheyAreNotReady(t *testing.T) {
	const native = `template: {cloneSetTemplate: null, %s: {metadata: {labels: {app: shop}}, spec: {template: {metadata: {labels: {app: shop}}, spec: {containers: [{name: main, image: "shop:1"}]}}}}}`
	for field, owner := range map[string]metav1.OwnerReference{
		"statefulSetTemplate": {Kind: "StatefulSet"}, "deploymentTemplate": {Kind: "ReplicaSet"},
	} {
		t.Run(field, func(t *testing.T) {
			w := settled(t, fmt.Sprintf(native, field), "replicas: 6")
			child := w.children[0]
			owner.UID, owner.Name, owner.Controller = child.GetUID(), child.GetName()+"-5d4f", ptr.To(true)
			child.Object["status"] = map[string]any{
				"observedGeneration": child.GetGeneration(), "replicas": int64(2), "readyReplicas": int64(1), "updatedReplicas": int64(2),
			}
			w.pods = []*corev1.Pod{{
				ObjectMeta: metav1.ObjectMeta{
					Name: "shop-a-0", CreationTimestamp: metav1.NewTime(w.now), OwnerReferences: []metav1.OwnerReference{owner}, Labels: map[string]string{shared.LabelSubsetName: "a"},
				},
				Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "main", Image: "shop:1"}}},
				Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{
					{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}},
				}},
			}}
			look := func() (s Snapshot, again time.Duration) {
				s = w.snapshot(united.Parse(w.set))
				for i := range s.Children {
					again = max(again, w.memory.Look(&s.Children[i], w.now))
				}
				if PodsNeeded(united.Parse(w.set), s.Children) == AllPods {
					s.Pods = Pods([]corev1.Pod{*w.pods[0]})
				}
				return s, again
			}
			if s, again := look(); s.Pods != nil || again != silence {
				t.Errorf("at once, %d pods are read, and again after %s", len(s.Pods), again)
			}
			w.now = w.now.Add(silence)
			s, again := look()
			if again != silence {
				t.Errorf("it is looked at again after %s", again)
			}
			spec := united.Parse(w.set)
			status := Status(spec, s, Plan(spec, s), planning.Outcome{})
			want := fmt.Sprintf("subset a: %s %s: shop-a-0: container main: ImagePullBackOff shop:1", child.GetKind(), child.GetName())
			if c, _ := conditions.Find(conditions.From(status.Conditions), appsv1beta1.UnitedDeploymentStalled); c.Status != corev1.ConditionTrue || c.Message != want {
				t.Errorf("Stalled is %+v, want %q", c, want)
			}
			w.work() // all are ready
			if s, again := look(); s.Pods != nil || again != 0 {
				t.Errorf("when all are ready, %d pods are read, and again after %s", len(s.Pods), again)
			}
		})
	}
}

func TestAnotherOrderOfSubsetsMovesNothing(t *testing.T) {
	w := settled(t, "replicas: 8")
	w.change("topology: {subsets: [{name: c}, {name: a}, {name: b}]}")
	if actions, _ := w.planned(nil); len(actions) > 0 {
		t.Errorf("planned %v", actions)
	}
}

// TestRemainderWhilePartOfAPlanIsLeft: a server that is slow, or refuses some workloads for a while, does not change how pods are divided.
func TestRemainderWhilePartOfAPlanIsLeft(t *testing.T) {
	sizes := func(w *simulation) string {
		all := map[string]int{}
		for _, child := range w.children {
			all[child.GetLabels()[shared.LabelSubsetName]] = united.Number(child.Object, "spec", "replicas")
		}
		return fmt.Sprint(all)
	}
	for _, left := range [][]string{nil, {"a"}, {"b"}, {"c"}, {"a", "b"}, {"a", "c"}, {"b", "c"}, {"a", "b", "c"}} {
		t.Run(fmt.Sprint("left ", left), func(t *testing.T) {
			w := newSimulation(t)
			for _, step := range []struct{ change, want string }{
				{"replicas: 4", "map[a:1 b:1 c:2]"},
				{"replicas: 8", "map[a:2 b:3 c:3]"},
				{"replicas: 7", "map[a:2 b:2 c:3]"},
			} {
				w.change(step.change)
				for _, zone := range left {
					w.refused[zone] = "a slow server"
				}
				w.pass()
				w.work()
				w.refused = map[string]string{}
				w.rest()
				if got := sizes(w); got != step.want {
					t.Errorf("with %s the sizes are %s, want %s", step.change, got, step.want)
				}
			}
			w.children = w.children[:2]
			w.rest()
			if got, want := sizes(w), "map[a:2 b:2 c:3]"; got != want {
				t.Errorf("after somebody deleted a workload the sizes are %s, want %s", got, want)
			}
		})
		t.Run(fmt.Sprint("stopped before the first status, left ", left), func(t *testing.T) {
			w := newSimulation(t, "replicas: 4")
			for _, zone := range left {
				w.refused[zone] = "a slow server"
			}
			w.passWithoutStatus()
			w.refused = map[string]string{}
			w.rest()
			if got, want := sizes(w), "map[a:1 b:1 c:2]"; got != want {
				t.Errorf("the sizes are %s, want %s", got, want)
			}
		})
	}
}

// TestNewSubsetProvesItselfAlsoWhenItsStatusIsLost: the pods of other subsets were deleted at once, before those of the new one ran.
func TestNewSubsetProvesItselfAlsoWhenItsStatusIsLost(t *testing.T) {
	for name, pass := range map[string]func(*simulation){
		"written": func(w *simulation) { w.pass() },
		"lost":    func(w *simulation) { w.passWithoutStatus() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, reservingZones)
			w.rest()
			w.now = w.now.Add(time.Hour)
			w.change(`topology: {subsets: [{name: z, maxReplicas: 2}, {name: a, maxReplicas: 3}, {name: b, maxReplicas: 3}, {name: c}]}`)
			w.full["z"] = true
			pass(w)
			w.rest()
			ready := 0
			for _, pod := range w.pods {
				if pod.Spec.NodeName != "" {
					ready++
				}
			}
			if ready != 6 {
				t.Errorf("%d pods are ready while the new subset has no room, want 6: %s", ready, w.state())
			}
		})
	}
}

// Others changed the first workloads back each time, and the server was slow: there was time for these alone, and the later subsets were never updated.
func TestSlowAppliesTakeTurns(t *testing.T) {
	for _, slice := range []int{1, 2} {
		t.Run(fmt.Sprint("time for ", slice), func(t *testing.T) {
			w := newSimulation(t, `topology: {subsets: [{name: a}, {name: b}, {name: c}, {name: d}, {name: e}]}`)
			w.rest()
			w.stubborn, w.slice = map[string]bool{"a": true, "b": true}, slice
			w.change(`template: {cloneSetTemplate: {spec: {template: {spec: {containers: [{name: main, image: "shop:2"}]}}}}}`)
			for range 5 {
				w.pass()
			}
			var updated []string
			for _, child := range w.children {
				if image(child) == "shop:2" {
					updated = append(updated, child.GetLabels()[shared.LabelSubsetName])
				}
			}
			if got := strings.Join(updated, " "); got != "c d e" {
				t.Errorf("after five passes %s are updated, want c d e", got)
			}
			w.slice = 0
			w.pass()
			if first := w.memory.First(); first > 0 {
				t.Errorf("there is time for all, and still %v is remembered", first)
			}
		})
	}
}

// While there was not time for all applies, none of those that make no difference was remembered, so that they took the time in each pass.
func TestAnApplyWithoutEffectIsRememberedAlsoWhenOthersAreLeft(t *testing.T) {
	w := newSimulation(t)
	w.rest()
	for _, child := range w.children {
		if err := unstructured.SetNestedField(child.Object, int64(9), "spec", "replicas"); err != nil {
			t.Fatal(err)
		}
	}
	s := w.snapshot(united.Parse(w.set))
	d := Plan(united.Parse(w.set), s)
	if len(d.Actions) != 3 {
		t.Fatalf("the plan is %+v", d.Actions)
	}
	w.memory.Note(w.set.Generation, s.Children, d, planning.Outcome{Left: []int{1, 2}})
	var remembered []string
	for i := range s.Children {
		if w.memory.Recall(w.set.Generation, &s.Children[i]); s.Children[i].InSync != nil {
			remembered = append(remembered, s.Children[i].Subset)
		}
	}
	if got := strings.Join(remembered, " "); got != "a" {
		t.Errorf("%q are remembered, want a", got)
	}
}
