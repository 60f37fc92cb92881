// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// heldBy puts a pod out of service in the name of others.
func heldBy(message string) func(*corev1.Pod) {
	return condition(shared.GateKruisePodReady, corev1.ConditionFalse, message)
}

func withoutGates(pod *corev1.Pod) { pod.Spec.ReadinessGates = nil }

func snapshotOf(objects ...*corev1.Pod) *Snapshot {
	s := &Snapshot{Now: now()}
	for _, object := range objects {
		s.Pods = append(s.Pods, Observe(object, Identity{Slot: planning.Slot(object.Name)}, FactRules{Now: now()}))
	}
	return s
}

const restart1, restart2 = `{"userAgent":"ContainerRecreateRequest","key":"shop/restart-1"}`, `{"userAgent":"ContainerRecreateRequest","key":"shop/restart-2"}`

func TestAPodThatSomebodyElseHoldsOutOfServiceIsNamed(t *testing.T) {
	const gate = "held out of service through the readiness gate KruisePodReady: "
	many := `{"userAgent":"a","key":"1"},{"userAgent":"b","key":"2"},{"userAgent":"c","key":"3"},{"userAgent":"d","key":"4"},{"userAgent":"e","key":"5"},{"userAgent":"f","key":"6"}`
	cases := map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"nobody holds one":           {pods: []*corev1.Pod{object("web-0")}},
		"a hook of ours does":        {pods: []*corev1.Pod{object("web-0", heldBy(`[{"userAgent":"Lifecycle","key":"preDeleteHook"}]`))}},
		"a request of OpenKruise":    {pods: []*corev1.Pod{object("web-0", heldBy("["+restart1+"]"))}, want: gate + "web-0 by ContainerRecreateRequest shop/restart-1"},
		"a pod that goes":            {pods: []*corev1.Pod{object("web-0", heldBy("["+restart1+"]"), deleted)}},
		"a writer who left no name":  {pods: []*corev1.Pod{object("web-0", heldBy("maintenance"))}, want: gate + "web-0 by a writer who left no name"},
		"a list that was never used": {pods: []*corev1.Pod{object("web-0", condition(shared.GateKruisePodReady, corev1.ConditionTrue, "["+restart1+"]"))}},
		"two writers, one of three pods": {
			pods: []*corev1.Pod{object("web-10", heldBy("["+restart1+"]")), object("web-2", heldBy("["+restart1+`,{"userAgent":"Backup","key":"x"}]`)), object("web-3", heldBy("["+restart1+"]"))},
			want: gate + "web-2 by Backup x; web-2, web-3, web-10 by ContainerRecreateRequest shop/restart-1",
		},
		"more writers than are shown": {
			pods: []*corev1.Pod{object("web-0", heldBy("["+many+"]"))},
			want: gate + "web-0 by a 1; web-0 by b 2; web-0 by c 3; and by 3 more",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, is := HeldByOthers(snapshotOf(tc.pods...))
			if is != (tc.want != "") || c.Message != tc.want {
				t.Errorf("held %v: %q, want %q", is, c.Message, tc.want)
			}
		})
	}
	long := snapshotOf(object("web-0", heldBy(`[{"userAgent":"`+strings.Repeat("x ", 5000)+`","key":"y"}]`)))
	if c, _ := HeldByOthers(long); len(c.Message) > 400 {
		t.Errorf("somebody else's text makes the message %d bytes long", len(c.Message))
	}
}

// A restart of containers that was under way when OpenKruise was replaced left its pod out of service for good.
func TestAHoldWhoseRequestIsOverIsGivenUp(t *testing.T) {
	over := shared.ReadinessHolder{UserAgent: "ContainerRecreateRequest", Key: "shop/restart-1"}
	hook := `{"userAgent":"Lifecycle","key":"preUpdateHook"}`
	cases := map[string]struct {
		pod  []func(*corev1.Pod)
		over map[shared.ReadinessHolder]bool
		// want are the conditions that are written, one after the other, until nothing is.
		want []string
	}{
		"a request that is over":          {pod: []func(*corev1.Pod){heldBy("[" + restart1 + "]")}, over: map[shared.ReadinessHolder]bool{over: true}, want: []string{"True []"}},
		"a request that goes on":          {pod: []func(*corev1.Pod){heldBy("[" + restart2 + "]")}, over: map[shared.ReadinessHolder]bool{over: true}},
		"nothing is known of requests":    {pod: []func(*corev1.Pod){heldBy("[" + restart1 + "]")}},
		"one is over, another goes on":    {pod: []func(*corev1.Pod){heldBy("[" + restart1 + "," + restart2 + "]")}, over: map[shared.ReadinessHolder]bool{over: true}, want: []string{"False [" + restart2 + "]"}},
		"an unknown writer holds it, too": {pod: []func(*corev1.Pod){heldBy(`[{"userAgent":"Backup","key":"x"},` + restart1 + "]")}, over: map[shared.ReadinessHolder]bool{over: true}, want: []string{`False [{"userAgent":"Backup","key":"x"}]`}},
		"a hook left a hold behind, too":  {pod: []func(*corev1.Pod){heldBy("[" + restart1 + "," + hook + "]")}, over: map[shared.ReadinessHolder]bool{over: true}, want: []string{"False [" + restart1 + "]", "True []"}},
		"a pod that goes":                 {pod: []func(*corev1.Pod){heldBy("[" + restart1 + "]"), deleted}, over: map[shared.ReadinessHolder]bool{over: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := object("web-0", tc.pod...)
			var got []string
			for range 5 {
				s := snapshotOf(pod)
				s.OverRequests = tc.over
				pass := Draft{Snapshot: s, spec: &Spec{}}
				pass.Settle(SettleRules{Admit: func(*Pod) bool { return true }})
				actions := pass.Plan().Actions
				if len(actions) == 0 {
					break
				}
				for _, c := range actions[0].Change.(edit.Edit).Conditions {
					if c.Type == shared.GateKruisePodReady {
						got = append(got, string(c.Status)+" "+c.Message)
					}
					*podstate.Condition(pod, c.Type) = c
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("KruisePodReady (-want +got):\n%s", diff)
			}
		})
	}
}

// Pods of another manager, taken over without the gate, served while their containers restarted, and nothing said so.
func TestPodsThatAreUpdatedUndrainedAreCounted(t *testing.T) {
	finished := func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }
	s := snapshotOf(object("web-0", withoutGates), object("web-1"), object("web-2", withoutGates), object("web-3", withoutGates, deleted), object("web-4", withoutGates, finished))
	for policy, want := range map[shared.PodUpdatePolicy]bool{shared.RecreatePods: false, "": false, shared.InPlaceIfPossible: true, shared.InPlaceOnly: true} {
		c, is := WithoutGate(&Spec{PodUpdatePolicy: policy}, s)
		if is != want || is && !strings.HasPrefix(c.Message, "2 pods are without the readiness gate InPlaceUpdateReady: web-0, web-2.") {
			t.Errorf("%s: %v %q", policy, is, c.Message)
		}
	}
	if c, is := WithoutGate(&Spec{PodUpdatePolicy: shared.InPlaceOnly}, snapshotOf(object("web-1"))); is {
		t.Errorf("where all pods have the gate: %q", c.Message)
	}
}

func TestARepairedPodHasAnEvent(t *testing.T) {
	pod := Observe(object("web-0"), Identity{Slot: "0"}, FactRules{Now: now()})
	pass := Draft{Snapshot: &Snapshot{Now: now(), Pods: []Pod{pod}}, spec: &Spec{Owner: metav1.OwnerReference{Kind: "StatefulSet", Name: "web"}}}
	pass.Settle(SettleRules{Repair: func(*Pod) edit.Edit {
		var e edit.Edit
		e.SetLabel("lost", "found")
		return e
	}})
	actions := pass.Plan().Actions
	want := planning.Event{Reason: "SuccessfulUpdate", Message: "update Pod web-0 in StatefulSet web successful"}
	if len(actions) != 1 || actions[0].Success != want {
		t.Errorf("planned %+v, want one edit with the event %+v", actions, want)
	}
}
