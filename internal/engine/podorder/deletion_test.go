// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podorder

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

func minutes(n int) metav1.Time {
	return metav1.NewTime(time.Date(2026, 1, 1, 0, n, 0, 0, time.UTC))
}

// victim is a pod that runs, is available and an hour old, changed by the given functions.
func victim(name string, change ...func(*Victim)) Victim {
	v := Victim{Ready: true, Available: true, Object: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: minutes(0), Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{NodeName: "node-" + name},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: minutes(1)},
		}},
	}}
	for _, c := range change {
		c(&v)
	}
	return v
}

func onNode(name string) func(*Victim) { return func(v *Victim) { v.Object.Spec.NodeName = name } }
func phase(p corev1.PodPhase) func(*Victim) {
	return func(v *Victim) { v.Object.Status.Phase = p }
}
func unavailable(v *Victim) { v.Available = false }
func notReady(v *Victim)    { v.Ready, v.Available = false, false }
func cost(text string) func(*Victim) {
	return func(v *Victim) { v.Object.Annotations[shared.AnnotationPodDeletionCost] = text }
}
func readySince(n int) func(*Victim) {
	return func(v *Victim) { v.Object.Status.Conditions[0].LastTransitionTime = minutes(n) }
}
func restarts(n int32) func(*Victim) {
	return func(v *Victim) {
		v.Object.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}, {RestartCount: n}}
	}
}
func born(n int) func(*Victim) { return func(v *Victim) { v.Object.CreationTimestamp = minutes(n) } }

func victimNames(all []Victim) string {
	var text []string
	for _, v := range all {
		text = append(text, v.Object.Name)
	}
	return strings.Join(text, " ")
}

// TestForDeletion names the pods a, b, c in the order in which they should go and gives them in the reverse order.
func TestForDeletion(t *testing.T) {
	cases := map[string][]Victim{
		"a pod without a node goes before a broken one":          {victim("a", onNode("")), victim("b", notReady, phase(corev1.PodPending))},
		"pending goes before unknown, unknown before running":    {victim("a", phase(corev1.PodPending)), victim("b", phase(corev1.PodUnknown)), victim("c", notReady)},
		"ready but not yet available goes before available":      {victim("a", unavailable, cost("100")), victim("b")},
		"not ready goes before ready":                            {victim("a", notReady, cost("100")), victim("b", unavailable)},
		"the lower cost goes first":                              {victim("a", cost("-5")), victim("b"), victim("c", cost("5"))},
		"a cost with a plus sign counts as none":                 {victim("a", cost("-1")), victim("b", cost("+9"), born(9)), victim("c")},
		"a cost with leading zeros counts as none":               {victim("a", cost("007"), born(9)), victim("b", cost("1"))},
		"a cost that is no number counts as none":                {victim("a", cost("much"), born(9)), victim("b", cost("1"))},
		"a cost too large counts as none":                        {victim("a", cost("3000000000"), born(9)), victim("b", cost("1"))},
		"ready for a shorter time goes first":                    {victim("a", readySince(30)), victim("b", readySince(20), restarts(9))},
		"an unknown time of readiness counts as the latest":      {victim("a", func(v *Victim) { v.Object.Status.Conditions[0].LastTransitionTime = metav1.Time{} }), victim("b", readySince(20))},
		"more restarts go first":                                 {victim("a", restarts(5)), victim("b", restarts(2), born(9))},
		"the younger goes first":                                 {victim("a", born(9)), victim("b", born(2))},
		"cost decides before crowding":                           {victim("a", cost("-1")), victim("b", onNode("x"), born(9)), victim("c", onNode("x"))},
		"of the pods on a crowded node one goes before the rest": {victim("a", onNode("x"), born(1)), victim("b", onNode("y"), born(9)), victim("c", onNode("x"))},
	}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			var given []Victim
			for i := range want {
				given = append(given, want[len(want)-1-i])
			}
			got := ForDeletion(given, given, func(v Victim) Victim { return v }, Spread{})
			if diff := cmp.Diff(victimNames(want), victimNames(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestForDeletionKeepsTheOrderOfEquals(t *testing.T) {
	given := []Victim{victim("b"), victim("a"), victim("c")}
	if got := victimNames(ForDeletion(given, given, func(v Victim) Victim { return v }, Spread{})); got != "b a c" {
		t.Errorf("got %s", got)
	}
}

func zoneOf(node, key string) string {
	if key == corev1.LabelHostname {
		return node
	}
	zone, _, _ := strings.Cut(node, "/")
	return zone
}

func constraints(keys ...string) []corev1.TopologySpreadConstraint {
	var all []corev1.TopologySpreadConstraint
	for _, key := range keys {
		all = append(all, corev1.TopologySpreadConstraint{TopologyKey: key})
	}
	return all
}

func TestForDeletionSpreads(t *testing.T) {
	const zone = corev1.LabelTopologyZone
	cases := map[string]struct {
		pods, others []Victim
		keys         []string
		want         string
	}{
		"crowded zones are thinned out first, in turn": {
			pods: []Victim{
				victim("x1", onNode("x/1")), victim("x2", onNode("x/2")), victim("x3", onNode("x/3")),
				victim("y1", onNode("y/1")), victim("y2", onNode("y/2")),
			},
			keys: []string{zone}, want: "x3 x2 y2 x1 y1",
		},
		"inside a zone the crowded node gives first": {
			pods: []Victim{victim("a", onNode("x/1")), victim("b", onNode("x/2")), victim("c", onNode("x/2"), born(-9))},
			keys: []string{zone}, want: "b a c",
		},
		"pods that are not to be deleted crowd too": {
			pods:   []Victim{victim("a", onNode("x/1")), victim("b", onNode("y/1"))},
			others: []Victim{victim("o1", onNode("y/2"), born(-9)), victim("o2", onNode("y/3"), born(-9))},
			keys:   []string{zone}, want: "b a",
		},
		"a pod whose zone is not known is kept": {
			pods: []Victim{victim("a", onNode("/1"), born(9)), victim("b", onNode("x/1")), victim("c", onNode("x/2"), born(-9))},
			keys: []string{zone}, want: "b a c",
		},
		"several constraints add up": {
			pods: []Victim{
				victim("a", onNode("x/1"), born(-1)), victim("b", onNode("x/1")), victim("c", onNode("y/1"), born(-1)), victim("d", onNode("y/2")),
			},
			keys: []string{zone, corev1.LabelHostname}, want: "b d a c",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			all := append(append([]Victim{}, tc.pods...), tc.others...)
			got := ForDeletion(tc.pods, all, func(v Victim) Victim { return v }, Spread{Constraints: constraints(tc.keys...), Domain: zoneOf})
			if diff := cmp.Diff(tc.want, victimNames(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
