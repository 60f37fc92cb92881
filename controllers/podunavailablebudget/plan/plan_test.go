// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/disruption"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

var now = time.Date(2026, 11, 20, 21, 0, 0, 0, time.UTC) // one time for all cases

// What OpenKruise has counted is counted alike, without a write to any pod or status.
func TestBudgetsOfOpenKruiseAreTakenOver(t *testing.T) {
	objects := fixtures.Objects(t, "podunavailablebudget/state.yaml")
	pods := fixtures.All[corev1.Pod](t, objects, "v1", "Pod")
	totals := map[string]int32{"front-pub": 5, "side-pub": 3}
	for _, stored := range fixtures.All[v1beta1.PodUnavailableBudget](t, objects, v1beta1.GroupVersion().String(), "PodUnavailableBudget") {
		t.Run(stored.Name, func(t *testing.T) {
			b := disruption.Parse(stored)
			s := Snapshot{Observed: disruption.Observed{Now: now, Total: totals[stored.Name], LinkedOnly: true}}
			for _, pod := range pods {
				if b.Covers(pod) {
					s.Pods, s.Linked = append(s.Pods, pod), append(s.Linked, pod)
				}
			}
			d := Plan(b, s)
			for _, action := range d.Actions {
				t.Errorf("%s of %s: %+v", action.Step, action.Object.GetName(), action.Change)
			}
			after := Status(b, s, d, planning.Outcome{})
			if Urgent(&stored.Status, &after) || after.ObservedGeneration != stored.Status.ObservedGeneration || after.CurrentAvailable != stored.Status.CurrentAvailable || after.TotalReplicas != stored.Status.TotalReplicas {
				t.Errorf("the status was %+v, and is %+v", stored.Status, after)
			}
		})
	}
}

func budget(edits ...func(*v1beta1.PodUnavailableBudget)) *disruption.Budget {
	b := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 2}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	b.Spec.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	for _, edit := range edits {
		edit(b)
	}
	return disruption.Parse(b)
}

func pods(n int) []*corev1.Pod {
	all := make([]*corev1.Pod, n)
	for i := range all {
		all[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("web-", i), Labels: map[string]string{"app": "web"}}}
		all[i].Status.Phase = corev1.PodRunning
		all[i].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return all
}

// Each reason of the conditions, with its event and whether the generation is observed.
func TestReasons(t *testing.T) {
	observed := func(total int32, of []*corev1.Pod) disruption.Observed {
		return disruption.Observed{Now: now, Pods: of, Total: total}
	}
	for name, tc := range map[string]struct {
		budget  *disruption.Budget
		s       Snapshot
		outcome planning.Outcome
		want    string
	}{
		"in force":                  {budget(), Snapshot{Observed: observed(3, pods(3))}, planning.Outcome{}, "InForce false observed 2"},
		"no pods":                   {budget(), Snapshot{Observed: observed(0, nil)}, planning.Outcome{}, "NoPods false observed 2 NoPods"},
		"the target is gone":        {budget(), Snapshot{Observed: disruption.Observed{Now: now, Gone: true, Pods: pods(3), Total: 3}}, planning.Outcome{}, "NoPods false observed 2 NoPods"},
		"bare pods without a total": {budget(), Snapshot{Observed: observed(0, pods(3))}, planning.Outcome{}, "NothingProtected false observed 2"},
		"a kind without replicas":   {budget(), Snapshot{Observed: observed(-1, pods(3))}, planning.Outcome{}, "NothingProtected false observed 2"},
		"the total is not known":    {budget(), Snapshot{Observed: observed(0, pods(3)), Unknown: "no right"}, planning.Outcome{}, "TotalUnknown true observed 0 CalculateExpectedPodCountFailed"},
		"nobody is asked yet":       {budget(), Snapshot{Observed: observed(3, pods(3)), Registering: "soon"}, planning.Outcome{}, "Registering false observed 0"},
		"nobody can be asked":       {budget(), Snapshot{Observed: observed(3, pods(3)), NotRegistered: "refused"}, planning.Outcome{}, "NotRegistered true observed 2 NotRegistered"},
		"the gates are off":         {budget(), Snapshot{Observed: observed(3, pods(3)), Off: "off"}, planning.Outcome{}, "GatesOff true observed 2 GatesOff"},
		"a spec that is none":       {budget(func(b *v1beta1.PodUnavailableBudget) { b.Spec.Selector = nil }), Snapshot{Observed: observed(3, nil)}, planning.Outcome{}, "InvalidSpec true observed 0 InvalidSpec"},
		"some pods are not linked":  {budget(), Snapshot{Observed: observed(3, pods(3))}, planning.Outcome{Left: []int{0}}, "InForce false observed 0"},
	} {
		t.Run(name, func(t *testing.T) {
			status := Status(tc.budget, tc.s, Plan(tc.budget, tc.s), tc.outcome)
			got := ""
			for _, c := range status.Conditions {
				if c.Type == v1beta1.PodUnavailableBudgetStalled {
					got += fmt.Sprint(c.Status == metav1.ConditionTrue)
				} else {
					got = c.Reason + " "
				}
			}
			got += fmt.Sprint(" observed ", status.ObservedGeneration)
			for _, event := range Events(&v1beta1.PodUnavailableBudgetStatus{}, &status) {
				got += " " + event.Reason
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// Links of another budget, of one that is gone, half of a link and an earlier failure policy are written anew; pods that terminate are left.
func TestLinks(t *testing.T) {
	linked := pods(6)
	linked[0].Annotations = map[string]string{v1beta1.AnnotationRelatedBudget: "web", v1beta1.AnnotationRelatedBudgetLegacy: "web"}
	linked[1].Annotations = map[string]string{v1beta1.AnnotationRelatedBudget: "earlier", v1beta1.AnnotationRelatedBudgetLegacy: "earlier"}
	linked[2].Annotations = map[string]string{v1beta1.AnnotationRelatedBudgetLegacy: "web"}
	linked[3].DeletionTimestamp = &metav1.Time{Time: now}
	linked[5].Annotations = map[string]string{
		v1beta1.AnnotationRelatedBudget: "web", v1beta1.AnnotationRelatedBudgetLegacy: "web", v1beta1.AnnotationBudgetFailurePolicy: "Ignore",
	}
	var names []string
	for _, action := range Plan(budget(), Snapshot{Observed: disruption.Observed{Now: now, Pods: linked, Total: 5}, Linked: linked}).Actions {
		names = append(names, action.Object.GetName())
	}
	if got := fmt.Sprint(names); got != "[web-1 web-2 web-4 web-5]" {
		t.Errorf("linked are %s", got)
	}
}
