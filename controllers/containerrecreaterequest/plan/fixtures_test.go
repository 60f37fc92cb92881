// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

// TestWhatOpenKruiseLeftNeedsNothing plans for the fixtures' ended
// requests: they and their pods stay, and get a condition for their end.
func TestWhatOpenKruiseLeftNeedsNothing(t *testing.T) {
	want := map[string]metav1.Condition{
		"kick": {Status: metav1.ConditionTrue, Reason: v1beta1.ReasonRecreated, Message: "1 container was restarted."},
		"kick-one": {
			Status: metav1.ConditionFalse, Reason: v1beta1.ReasonDaemonSilent,
			Message: "daemon has not responded for a long time. Not restarted: queue.",
		},
		"kick-two": {
			Status: metav1.ConditionFalse, Reason: v1beta1.ReasonDeadlineExceeded,
			Message: "recreating has exceeded the activeDeadlineSeconds. Not restarted: queue, metrics.",
		},
	}
	for _, name := range []string{"containerrecreaterequest", "containerrecreaterequest-done"} {
		objects := fixtures.Objects(t, name+"/state.yaml")
		pods := fixtures.All[corev1.Pod](t, objects, "v1", "Pod")
		for _, r := range fixtures.All[v1beta1.ContainerRecreateRequest](t, objects, "apps.kruise.io/v1beta1", "ContainerRecreateRequest") {
			s := Snapshot{Now: r.Status.CompletionTime.Add(time.Hour)}
			for _, pod := range pods {
				if string(pod.UID) == r.Labels[v1beta1.LabelRequestPodUID] {
					s.PodKnown = true
				}
			}
			if !s.PodKnown {
				t.Fatalf("%s: there is no pod", r.Name)
			}
			d := Plan(r, s)
			for _, action := range d.Actions {
				t.Errorf("%s: %s: %s", r.Name, action.Step, action.Reason)
			}
			status := Status(r, s, d, planning.Outcome{})
			got := metav1.Condition{}
			for _, c := range status.Conditions {
				if c.Type == v1beta1.RecreateConditionSucceeded {
					got = metav1.Condition{Status: c.Status, Reason: c.Reason, Message: c.Message}
				}
			}
			if diff := cmp.Diff(want[r.Name], got); diff != "" {
				t.Errorf("%s: how it ended (-want +got):\n%s", r.Name, diff)
			}
			before := r.Status.DeepCopy()
			before.ObservedGeneration = r.Generation
			status.Conditions = conditionsOf(status.Conditions, v1beta1.RecreatePreRecreateGrace)
			if diff := cmp.Diff(*before, status, cmp.Transformer("times", func(t metav1.Time) int64 { return t.Unix() }), ignoreGeneration()); diff != "" {
				t.Errorf("%s: status (-OpenKruise +ours):\n%s", r.Name, diff)
			}
		}
	}
}

// conditionsOf are the conditions of one type.
func conditionsOf(all []metav1.Condition, kind string) []metav1.Condition {
	var found []metav1.Condition
	for _, c := range all {
		if c.Type == kind {
			found = append(found, c)
		}
	}
	return found
}

// ignoreGeneration ignores observedGeneration: OpenKruise lacks it.
func ignoreGeneration() cmp.Option {
	return cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Conditions.ObservedGeneration" }, cmp.Ignore())
}
