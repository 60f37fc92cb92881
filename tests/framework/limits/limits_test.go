// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) // a constant that Go cannot express

func aSet(generation, observed int64, update string, change ...func(*v1beta1.StatefulSetSpec)) Event {
	set := &v1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: generation}}
	set.Spec.Replicas = ptr.To[int32](3)
	set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateStatefulSetStrategy{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
	for _, c := range change {
		c(&set.Spec)
	}
	set.Status = v1beta1.StatefulSetStatus{ObservedGeneration: observed, CurrentRevision: "old", UpdateRevision: update}
	return Event{Set: set}
}

func aPod(name, revision string, change ...func(*corev1.Pod)) Event {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{shared.LabelControllerRevisionHash: revision}}}
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "web", Controller: ptr.To(true)}}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(start.Add(-time.Minute))}}
	for _, c := range change {
		c(pod)
	}
	return Event{Pod: pod}
}

func initial(e Event) Event { e.Initial = true; return e }

func deleted(e Event) Event { e.Deleted = true; return e }

func held(pod *corev1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: shared.GateInPlaceUpdateReady, Status: corev1.ConditionFalse})
}

func crashed(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse }

func terminating(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(metav1.NewTime(start)) }

func partitionOf(n int32) func(*v1beta1.StatefulSetSpec) {
	return func(s *v1beta1.StatefulSetSpec) { s.UpdateStrategy.RollingUpdate.Partition = &n }
}

// TestJudge shows every rule can be broken.
func TestJudge(t *testing.T) {
	pods := []Event{initial(aPod("web-0", "old")), initial(aPod("web-1", "old")), initial(aPod("web-2", "old"))}
	rolling := append([]Event{initial(aSet(2, 2, "new"))}, pods...)
	cases := map[string]struct {
		before  []Event
		events  []Event
		rules   Rules
		foreign map[types.UID]bool
		want    string // empty: no violation
	}{
		"one pod after the other": {
			before: rolling,
			events: []Event{aPod("web-2", "old", held), aPod("web-2", "new", held), aPod("web-2", "new"), aPod("web-1", "old", held), aPod("web-1", "new", held)},
		},
		"two pods at once": {
			before: rolling,
			events: []Event{aPod("web-2", "old", held), aPod("web-1", "old", held)},
			want:   "web-1 (version ): is taken out of service while 1 are unavailable (web-2); 1 are allowed",
		},
		"a pod while another one is down": {
			before: rolling,
			events: []Event{aPod("web-0", "old", crashed), aPod("web-2", "old", held)},
			want:   "while 1 are unavailable (web-0)",
		},
		"a pod while another one goes down by itself": {
			before: rolling, rules: Rules{Foreign: true},
			events: []Event{aPod("web-0", "old", crashed), aPod("web-2", "old", held)},
		},
		"a broken pod costs nothing": {
			before: rolling,
			events: []Event{aPod("web-0", "old", crashed), aPod("web-0", "new", crashed, held)},
		},
		"a limit that was just raised": {
			before: rolling,
			events: []Event{
				aSet(3, 2, "new", func(s *v1beta1.StatefulSetSpec) {
					s.UpdateStrategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromString("70%"))
				}),
				aPod("web-2", "old", held), aPod("web-1", "old", held),
			},
		},
		"a pod that the partition keeps": {
			before: append([]Event{initial(aSet(2, 2, "new", partitionOf(1)))}, pods...),
			events: []Event{aPod("web-0", "new", held)},
			want:   "partition 1 keeps it",
		},
		"a replacement at the new revision for a pod that the partition keeps": {
			before: append([]Event{initial(aSet(2, 2, "new", partitionOf(1)))}, pods[1:]...),
			events: []Event{aPod("web-0", "new")},
			want:   "is created at new; partition 1 keeps it at old",
		},
		"a reserved ordinal": {
			before: []Event{initial(aSet(1, 1, "old", func(s *v1beta1.StatefulSetSpec) {
				s.ReserveOrdinals = []intstr.IntOrString{intstr.FromInt32(0), intstr.FromString("2-3")}
			}))},
			events: []Event{aPod("web-1", "old"), aPod("web-2", "old")},
			want:   "web-2 (version ): is created, wanted are web-1, web-4, web-5",
		},
		"a pod that needs no change": {
			before: append([]Event{initial(aSet(1, 1, "old"))}, pods...),
			events: []Event{aPod("web-1", "old", terminating)},
			want:   "is deleted, though it is wanted and at the update revision",
		},
		"a pod that somebody else deletes": {
			before: append([]Event{initial(aSet(1, 1, "old"))}, pods...), foreign: map[types.UID]bool{"web-1": true},
			events: []Event{aPod("web-1", "old", terminating)},
		},
		"a blip for nothing": {
			before: rolling,
			events: []Event{aPod("web-2", "old", held), aPod("web-2", "old")},
			want:   "was taken out of service and put back unchanged",
		},
		"a move to nowhere": {
			before: rolling,
			events: []Event{aPod("web-2", "older", held)},
			want:   "is moved to older, the update revision is new",
		},
		"a second pod of the same name": {
			before: rolling,
			events: []Event{aPod("web-2", "old", func(p *corev1.Pod) { p.UID = "other" })},
			want:   "has a second pod while web-2 is not gone",
		},
		"too many pods at once for the scale strategy": {
			before: []Event{initial(aSet(1, 1, "old", func(s *v1beta1.StatefulSetSpec) {
				s.ScaleStrategy = &v1beta1.StatefulSetScaleStrategy{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
			}))},
			events: []Event{aPod("web-0", "old", crashed), aPod("web-1", "old", crashed)},
			want:   "is created while 1 below it are unavailable; scaleStrategy allows 1",
		},
		"everything goes with the set": {
			before: rolling,
			events: []Event{deleted(aSet(2, 2, "new")), aPod("web-1", "old", terminating), aPod("web-2", "old", terminating)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			events := append(append([]Event(nil), tc.before...), tc.events...)
			for i := range events {
				events[i].Version, events[i].At = uint64(i+1), start.Add(time.Duration(i)*time.Second)
			}
			got := strings.Join(Judge(events, tc.rules, tc.foreign).Violations, "\n")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("violations:\n%s\nwant %q", got, fmt.Sprint(tc.want))
			}
		})
	}
}
