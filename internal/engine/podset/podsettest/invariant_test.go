// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// running is a pod that is available, with labels.
func running(name string, labels ...string) *corev1.Pod {
	pod := toyPod(0, 1)
	pod.Name = name
	for i := 0; i < len(labels); i += 2 {
		pod.Labels[labels[i]] = labels[i+1]
	}
	pod = toyGate().Apply(pod)
	(Cluster{}).start(pod)
	becomeReady(pod)
	return (Cluster{}).normalize(pod)
}

// TestInvariantsFindWhatTheyAreFor lets a planner do one thing that it must not do.
func TestInvariantsFindWhatTheyAreFor(t *testing.T) {
	hooks := &shared.Lifecycle{
		PreDelete:     &shared.LifecycleHook{LabelsHandler: map[string]string{"hold": "delete"}},
		InPlaceUpdate: &shared.LifecycleHook{LabelsHandler: map[string]string{"hold": "update"}},
	}
	var toV2, image edit.Edit
	toV2.SetLabel(shared.LabelControllerRevisionHash, "toy-v2")
	image.Images = map[string]string{"c": "toy:2"}
	created := running("b")
	waiting := running("a")
	waiting.Annotations[shared.AnnotationInPlaceGrace] = "{}"
	setCondition(waiting, corev1.PodReady, corev1.ConditionFalse)
	short, over := waiting.DeepCopy(), waiting.DeepCopy()
	short.Annotations[shared.AnnotationInPlaceState] = `{"updateTimestamp":"` + Now().Format(time.RFC3339) + `"}`
	over.Annotations[shared.AnnotationInPlaceState] = `{"updateTimestamp":"` + Long().Format(time.RFC3339) + `"}`
	everyPod := func(*State[toy], *corev1.Pod) bool { return true }
	noPod := func(*State[toy], *corev1.Pod) bool { return false }
	podOf := func(claim *corev1.PersistentVolumeClaim) string { return strings.TrimPrefix(claim.Name, "data-") }
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-a"}}
	otherOwner := planning.RawPatch{Body: []byte(`{"metadata":{"ownerReferences":[{"kind":"Pod","uid":"uid-a"}]}}`)}
	withUID := running("a")
	withUID.UID = UIDOf("a")
	owned := claim.DeepCopy()
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", UID: withUID.UID}}

	cases := map[string]struct {
		invariant Invariant[toy]
		pods      []*corev1.Pod
		action    planning.Action
		want      string // none if it holds
	}{
		"a hooked pod is deleted": {
			HooksHold[toy](hooks), []*corev1.Pod{running("a", "hold", "delete")}, planning.Action{Step: podset.StepDelete}, "preDelete hook is not released",
		},
		"a hooked pod is changed": {
			HooksHold[toy](hooks), []*corev1.Pod{running("a", "hold", "update")}, planning.Action{Step: podset.StepEdit, Change: image}, "inPlaceUpdate hook is not released",
		},
		"a pod with another hook is deleted": {
			HooksHold[toy](hooks), []*corev1.Pod{running("a", "hold", "update")}, planning.Action{Step: podset.StepDelete}, "",
		},
		"a pod below the partition is moved": {
			PartitionHolds(func(*State[toy]) map[string]string { return map[string]string{"a": "toy-v1"} }),
			[]*corev1.Pod{running("a")}, planning.Action{Step: podset.StepEdit, Change: toV2}, "pod a is moved to toy-v2",
		},
		"a pod above the partition is moved": {
			PartitionHolds(func(*State[toy]) map[string]string { return map[string]string{"b": "toy-v1"} }),
			[]*corev1.Pod{running("a")}, planning.Action{Step: podset.StepEdit, Change: toV2}, "",
		},
		"too few available pods are left": {
			AtLeastAvailable(func(toy) int { return 1 }, 0), []*corev1.Pod{running("a")}, planning.Action{Step: podset.StepDelete}, "of 1 available pods 0 are left; 1 are needed",
		},
		"enough available pods are left": {
			AtLeastAvailable(func(toy) int { return 1 }, 0), []*corev1.Pod{running("a"), running("b")}, planning.Action{Step: podset.StepDelete}, "",
		},
		"one pod too many is created": {
			AtMostPods(func(toy) int { return 1 }, func(toy, *corev1.Pod) bool { return true }),
			[]*corev1.Pod{running("a")}, podset.CreatePod("", created, nil, edit.Edit{}, ""), "2 pods, 1 are allowed",
		},
		"a pod is created beside one that should go": {
			AtMostPods(func(toy) int { return 1 }, func(_ toy, pod *corev1.Pod) bool { return pod.Name != "a" }),
			[]*corev1.Pod{running("a")}, podset.CreatePod("", created, nil, edit.Edit{}, ""), "",
		},
		"a pod that needs nothing is deleted": {
			OnlyNeededChanges(func(*State[toy], *corev1.Pod) bool { return false }),
			[]*corev1.Pod{running("a")}, planning.Action{Step: podset.StepDelete, Reason: "Whim"}, "pod a is deleted (Whim) without need",
		},
		"a pod that needs nothing is changed": {
			OnlyNeededChanges(func(*State[toy], *corev1.Pod) bool { return false }),
			[]*corev1.Pod{running("a")}, planning.Action{Step: podset.StepEdit, Change: image}, "pod a is changed () without need",
		},
		"an available pod is taken while another one is missing": {
			AtMostUnavailable(func(toy) Bounds { return Bounds{Wanted: []string{"a", "b"}, Max: 1} }),
			[]*corev1.Pod{running("a")}, planning.Action{Step: podset.StepDelete}, "a taken away while 1 were unavailable; 1 are allowed",
		},
		"an available pod is taken while there is room": {
			AtMostUnavailable(func(toy) Bounds { return Bounds{Wanted: []string{"a", "b"}, Max: 2} }),
			[]*corev1.Pod{running("a")}, planning.Action{Step: podset.StepDelete}, "",
		},
		"an available pod is taken while pods without names are missing": {
			AtMostUnavailable(func(toy) Bounds { return Bounds{Expected: 3, Max: 2} }),
			[]*corev1.Pod{running("a")}, planning.Action{Step: podset.StepDelete}, "a taken away while 2 were unavailable",
		},
		"a pod that is to be left alone is moved": {
			NothingMoves(everyPod), []*corev1.Pod{running("a")}, planning.Action{Step: podset.StepEdit, Change: toV2}, "Edit pod a",
		},
		"a pod that is to be left alone is deleted": {
			NothingMoves(everyPod), []*corev1.Pod{running("a")}, planning.Action{Step: podset.StepDelete}, "Delete pod a",
		},
		"a pod that is to be left alone goes on": {
			NothingMoves(everyPod), []*corev1.Pod{running("a")}, planning.Action{Step: podset.StepEdit, Change: image}, "",
		},
		"a pod that may move is moved": {
			NothingMoves(noPod), []*corev1.Pod{running("a")}, planning.Action{Step: podset.StepEdit, Change: toV2}, "",
		},
		"an image changes under a pod that serves": {
			GraceHolds[toy](), []*corev1.Pod{running("a")}, planning.Action{Step: podset.StepEdit, Change: image}, "before its grace period is over",
		},
		"an image changes in the grace period": {
			GraceHolds[toy](), []*corev1.Pod{short}, planning.Action{Step: podset.StepEdit, Change: image}, "before its grace period is over",
		},
		"an image changes after the grace period": {
			GraceHolds[toy](), []*corev1.Pod{over}, planning.Action{Step: podset.StepEdit, Change: image}, "",
		},
		"a claim is deleted that has a pod": {
			ClaimsStay(podOf, noPod), []*corev1.Pod{withUID}, podset.DeleteClaim("", claim, ""), "claim data-a is deleted, and pod a has it",
		},
		"a claim is deleted that has no pod": {
			ClaimsStay(podOf, everyPod), []*corev1.Pod{running("b")}, podset.DeleteClaim("", claim, ""), "",
		},
		"a claim is to go with a pod that stays": {
			ClaimsStay(podOf, everyPod), []*corev1.Pod{withUID}, podset.EditClaim("", claim, otherOwner, ""), "go with pod a, which stays",
		},
		"a pod is deleted that is to be replaced, and its claim would go with it": {
			ClaimsStay(podOf, everyPod), []*corev1.Pod{withUID}, podset.DeletePod("", withUID, ""), "pod a is deleted, and claim data-a would go with it",
		},
		"a pod is deleted that nobody wants, and its claim goes with it": {
			ClaimsStay(podOf, noPod), []*corev1.Pod{withUID}, podset.DeletePod("", withUID, ""), "",
		},
		"a claim is to go with a pod that leaves": {
			ClaimsStay(podOf, noPod), []*corev1.Pod{withUID}, podset.EditClaim("", claim, otherOwner, ""), "",
		},
		"a pod that nobody wants is deleted": {
			AtMostUnavailable(func(toy) Bounds { return Bounds{Wanted: []string{"b"}, Max: 0} }),
			[]*corev1.Pod{running("a")}, planning.Action{Step: podset.StepDelete}, "",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := &State[toy]{Pods: tc.pods}
			if claim := ClaimOf(tc.action); claim != nil {
				before.Claims = []*corev1.PersistentVolumeClaim{claim}
			} else if tc.action.Object == nil {
				tc.action.Object = tc.pods[0]
			} else if tc.action.Object == withUID {
				before.Claims = []*corev1.PersistentVolumeClaim{owned}
			}
			after := before.clone()
			if err := Apply(after, tc.action); err != nil {
				t.Fatal(err)
			}
			err := tc.invariant.Check(Event[toy]{Before: before, After: after, Actions: []planning.Action{tc.action}})
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
