// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// TestKnownPodsAreAsObserved: whatever is remembered, the facts are those that are derived anew, and only those about pods that were at rest and have
// not changed are not derived.
func TestKnownPodsAreAsObserved(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	pod := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{shared.LabelLifecycleState: string(shared.StateNormal)}, Annotations: map[string]string{}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(start.Add(-time.Hour))},
			}},
		}
		change(p)
		return p
	}
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus, since time.Time) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(since)})
		}
	}
	objects := []*corev1.Pod{
		pod("rests", func(*corev1.Pod) {}),
		pod("rests-without-label", func(p *corev1.Pod) { p.Labels = nil }),
		pod("rests-and-is-to-go", func(p *corev1.Pod) { p.Labels[shared.LabelSpecifiedDelete] = "true" }),
		pod("changes", func(*corev1.Pod) {}),
		pod("goes", func(*corev1.Pod) {}),
		pod("ready-a-moment-ago", condition(corev1.PodReady, corev1.ConditionTrue, start.Add(-5*time.Second))),
		pod("not-ready", condition(corev1.PodReady, corev1.ConditionFalse, start)),
		pod("terminating", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start} }),
		pod("at-a-hook", func(p *corev1.Pod) { p.Labels[shared.LabelLifecycleState] = string(shared.StatePreparingUpdate) }),
		pod("out-of-service", func(p *corev1.Pod) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: shared.GateInPlaceUpdateReady}}
			condition(shared.GateInPlaceUpdateReady, corev1.ConditionFalse, start)(p)
		}),
		pod("unreadable", func(p *corev1.Pod) { p.Annotations[shared.AnnotationInPlaceGrace] = "{" }),
	}
	var asked []string
	deletes := false
	identify := func(p *corev1.Pod) Identity {
		asked = append(asked, p.Name)
		id := Identity{Slot: planning.Slot(p.Name), Revision: "web-1"}
		if _, specified := p.Labels[shared.LabelSpecifiedDelete]; specified || deletes {
			id.Unwanted = UnwantedSpecified
		}
		return id
	}
	known := &AtRest{}
	look := func(generation int64, at time.Duration, want ...string) {
		t.Helper()
		rules := FactRules{Now: start.Add(at), MinReady: 10 * time.Second}
		fresh := (*AtRest)(nil).Observe(generation, objects, rules, identify)
		asked = nil
		got := known.Observe(generation, objects, rules, identify)
		if diff := cmp.Diff(fresh, got); diff != "" {
			t.Errorf("generation %d after %s (-observed +known):\n%s", generation, at, diff)
		}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("generation %d after %s looked at (-want +got):\n%s", generation, at, diff)
		}
		resting := 0
		for i := range got {
			if _, ok := rest(&got[i]); ok {
				resting++
			}
		}
		if len(known.pods) != resting || len(known.spare) != 0 {
			t.Errorf("generation %d after %s: %d and %d pods are remembered, %d rest", generation, at, len(known.pods), len(known.spare), resting)
		}
	}
	var all []string
	for _, object := range objects {
		all = append(all, object.Name)
	}
	unsettled := all[5:]
	look(1, 0, all...)
	look(1, time.Second, unsettled...)
	look(1, time.Minute, unsettled...)
	unsettled = unsettled[1:] // by now it has been ready long enough
	look(1, 2*time.Minute, unsettled...)

	changed := objects[3].DeepCopy()
	condition(corev1.PodReady, corev1.ConditionFalse, start.Add(3*time.Minute))(changed)
	objects[3] = changed
	objects = slices.Delete(objects, 4, 5)
	look(1, 3*time.Minute, append([]string{"changes"}, unsettled...)...)

	all = nil
	for _, object := range objects {
		all = append(all, object.Name)
	}
	deletes = true // which only a change of the spec can make so
	look(2, 4*time.Minute, all...)
	look(2, 5*time.Minute, append([]string{"changes"}, unsettled...)...)
}
