// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// aFlow is a CloneSet of three pods; one may be unavailable.
func aFlow(generation, observed int64, change ...func(*v1beta1.CloneSetSpec)) Event {
	set := &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: generation},
		Spec: v1beta1.CloneSetSpec{
			Replicas: ptr.To[int32](3),
			UpdateStrategy: v1beta1.CloneSetUpdateStrategy{
				RollingUpdate: &v1beta1.RollingUpdateCloneSetStrategy{MaxUnavailable: ptr.To(intstr.FromInt32(1))},
			},
		},
		Status: v1beta1.CloneSetStatus{ObservedGeneration: observed},
	}
	for _, c := range change {
		c(&set.Spec)
	}
	return Event{CloneSet: set}
}

func TestJudgeCloneSetFlow(t *testing.T) {
	began := []Event{aFlow(1, 1), aPod("a", "old"), aPod("b", "old"), aPod("c", "old")}
	surge := func(s *v1beta1.CloneSetSpec) { s.UpdateStrategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromInt32(1)) }
	paused := func(s *v1beta1.CloneSetSpec) { s.UpdateStrategy.RollingUpdate.Paused = true }
	two := func(s *v1beta1.CloneSetSpec) { s.Replicas = ptr.To[int32](2) }
	exclude := func(s *v1beta1.CloneSetSpec) { s.ScaleStrategy.ExcludePreparingDelete = true }
	keeps := func(partition string) func(s *v1beta1.CloneSetSpec) {
		return func(s *v1beta1.CloneSetSpec) {
			s.UpdateStrategy.RollingUpdate.Partition = ptr.To(intstr.Parse(partition))
		}
	}
	onDelete := func(s *v1beta1.CloneSetSpec) { s.UpdateStrategy.Type = v1beta1.OnDeleteCloneSetUpdateStrategyType }
	preparingDelete := func(p *corev1.Pod) { p.Labels[shared.LabelLifecycleState] = string(shared.StatePreparingDelete) }
	foreign := func(p *corev1.Pod) { p.UID = "foreign" }
	cases := map[string]struct {
		rules  Rules
		events []Event
		want   []string // parts of the violations
	}{
		"one after the other": {events: []Event{aPod("a", "new", held), aPod("a", "new"), aPod("b", "old", terminating)}},
		"two at once": {
			events: []Event{aPod("a", "new", held), aPod("b", "old", terminating)},
			want:   []string{"b (version ): is taken out of service, and 1 of 3 are available; maxUnavailable 1 allows 2"},
		},
		"the second one crashed by itself":             {events: []Event{aPod("a", "old", crashed), aPod("a", "new", held)}},
		"a crash counts":                               {events: []Event{aPod("a", "old", crashed), aPod("b", "new", held)}, want: []string{"b (version ): is taken"}},
		"a crash that is a moment old does not":        {rules: Rules{Foreign: true}, events: []Event{aPod("a", "old", crashed), aPod("b", "new", held)}},
		"two at once do, though others crash":          {rules: Rules{Foreign: true}, events: []Event{aPod("a", "new", held), aPod("b", "new", held)}, want: []string{"b (version ): is taken"}},
		"what others delete":                           {events: []Event{aPod("a", "old", foreign), aPod("a", "old", foreign, terminating)}},
		"a pod too many":                               {events: []Event{aPod("d", "old")}, want: []string{"d (version ): is created, and there are 4; replicas and maxSurge allow 3"}},
		"a surge":                                      {events: []Event{aFlow(2, 2, surge), aPod("d", "old")}},
		"no surge while paused":                        {events: []Event{aFlow(2, 2, surge, paused), aPod("d", "old")}, want: []string{"d (version ): is created"}},
		"a spec that is not observed yet":              {events: []Event{aFlow(2, 1, surge), aPod("d", "old")}},
		"a spec that was":                              {events: []Event{aFlow(2, 1, surge), aFlow(3, 1), aFlow(3, 3), aPod("d", "old")}, want: []string{"d (version ): is created"}},
		"in place of one that goes":                    {events: []Event{aPod("a", "old", terminating), aPod("d", "new", crashed)}},
		"in place of one that waits":                   {events: []Event{aPod("a", "old", preparingDelete), aPod("d", "new", crashed)}, want: []string{"d (version ): is created"}},
		"in place of one that waits and is excluded":   {events: []Event{aFlow(2, 2, exclude), aPod("a", "old", preparingDelete), aPod("d", "new", crashed)}},
		"scaled in":                                    {events: []Event{aFlow(2, 2, two), aPod("a", "old", terminating), aPod("b", "new", held)}},
		"within the partition":                         {events: []Event{aFlow(2, 2, keeps("2")), aPod("a", "new")}},
		"beyond the partition":                         {events: []Event{aFlow(2, 2, keeps("3")), aPod("a", "new")}, want: []string{"a (version ): is moved, and 2 stay; the partition is 3"}},
		"below a hundred percent one of several moves": {events: []Event{aFlow(2, 2, keeps("99%")), aPod("a", "new")}},
		"of several no second one does":                {events: []Event{aFlow(2, 2, keeps("34%")), aPod("a", "new"), aPod("b", "new")}, want: []string{"b (version ): is moved, and 1 stay; the partition is 2"}},
		"OnDelete":                                     {events: []Event{aFlow(2, 2, onDelete), aPod("a", "new")}, want: []string{"a (version ): is moved; the strategy is OnDelete"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			events := append(began[:4:4], tc.events...)
			for i := range events {
				events[i].At = start
			}
			verdict := JudgeCloneSetFlow(events, tc.rules, map[types.UID]bool{"foreign": true})
			if len(verdict.Violations) != len(tc.want) {
				t.Fatalf("the violations are\n%s\nwant %d", strings.Join(verdict.Violations, "\n"), len(tc.want))
			}
			for i, want := range tc.want {
				if !strings.Contains(verdict.Violations[i], want) {
					t.Errorf("violation %d is %q, want %q", i, verdict.Violations[i], want)
				}
			}
		})
	}
}
