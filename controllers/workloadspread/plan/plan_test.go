// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
)

func now() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }

// world is one WorkloadSpread with its pods.
type world struct {
	t    *testing.T
	ws   *appsv1beta1.WorkloadSpread
	seen Snapshot
}

func newWorld(t *testing.T, kind string, limits ...string) *world {
	t.Helper()
	w := &world{t: t, ws: &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ws", Generation: 1}}, seen: Snapshot{Now: now(), Found: true}}
	group := map[string]string{"CloneSet": "apps.kruise.io/v1beta1", "Job": "batch/v1"}[kind]
	if group == "" {
		group = "apps/v1"
	}
	w.ws.Spec.TargetReference = &appsv1beta1.TargetReference{APIVersion: group, Kind: kind, Name: "web"}
	for i, limit := range limits {
		sub := appsv1beta1.WorkloadSpreadSubset{Name: string(rune('a' + i))}
		if limit != "" {
			sub.MaxReplicas = ptr.To(intstr.Parse(limit))
		}
		w.ws.Spec.Subsets = append(w.ws.Spec.Subsets, sub)
	}
	return w
}

func (w *world) parsed() *spread.Spread {
	w.t.Helper()
	s, err := spread.Parse(w.ws)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// add adds ready pods of a subset; "" is none.
func (w *world) add(subset, version string, n int) []*corev1.Pod {
	var added []*corev1.Pod
	for range n {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("web-%02d", len(w.seen.Pods)), Labels: map[string]string{}, Annotations: map[string]string{}, CreationTimestamp: metav1.NewTime(now().Add(-time.Hour))},
			Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "main"}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		}
		if version != "" {
			pod.Labels[shared.LabelPodTemplateHash] = version
		}
		if subset != "" {
			pod.Annotations[shared.AnnotationMatchedWorkloadSpread] = `{"name":"ws","subset":"` + subset + `"}`
		}
		w.seen.Pods = append(w.seen.Pods, pod)
		added = append(added, pod)
	}
	return added
}

// pass plans, carries it out, and stores the status.
func (w *world) pass() Decision {
	w.t.Helper()
	d := Plan(w.parsed(), w.ws, w.seen)
	for _, a := range d.Actions {
		pod := podset.PodOf(a)
		for i, known := range w.seen.Pods {
			switch {
			case known.Name != pod.Name:
			case a.Step == podset.StepDelete:
				gone := known.DeepCopy()
				gone.DeletionTimestamp = ptr.To(metav1.NewTime(w.seen.Now))
				w.seen.Pods[i] = gone
			default:
				w.seen.Pods[i] = podsettest.EditOf(a).Apply(known)
			}
		}
	}
	w.ws.Status = Status(w.ws, w.seen, d, planning.Outcome{Done: len(d.Actions)}, nil)
	return d
}

// costs are the pods' deletion costs.
func (w *world) costs() string {
	var all []string
	for _, pod := range w.seen.Pods {
		all = append(all, pod.Annotations[shared.AnnotationPodDeletionCost])
	}
	return strings.Join(all, " ")
}

func (w *world) is(what, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// counts are replicas and missing replicas of each subset.
func counts(statuses []appsv1beta1.WorkloadSpreadSubsetStatus) string {
	var all []string
	for _, s := range statuses {
		all = append(all, fmt.Sprintf("%s %d/%d", s.Name, s.Replicas, s.MissingReplicas))
	}
	return strings.Join(all, ", ")
}

func TestCostsKeepTheSplit(t *testing.T) { // examples E1 and E2
	w := newWorld(t, "CloneSet", "3", "2", "")
	a := w.add("a", "", 3)
	w.add("b", "", 2)
	w.add("c", "", 1)
	if d := w.pass(); len(d.Actions) != 6 || d.Actions[0].Failure.Reason != "PatchPodDeletionCostFailed" {
		t.Errorf("the actions are %+v", d.Actions)
	}
	w.is("costs", w.costs(), "300 300 300 200 200 100")
	w.is("status", counts(w.ws.Status.SubsetStatuses), "a 3/0, b 2/0, c 1/-1")
	if d := w.pass(); len(d.Actions) > 0 {
		t.Errorf("%d actions although nothing has changed", len(d.Actions))
	}
	w.ws.Spec.Subsets[0].MaxReplicas = ptr.To(intstr.FromInt32(1))
	unready := w.seen.Pods[0].DeepCopy()
	unready.Status.Conditions[0].Status = corev1.ConditionFalse
	w.seen.Pods[0] = unready
	w.pass()
	if got := w.costs(); strings.Count(got, "-100") != 2 || !strings.HasPrefix(got, "-100") {
		t.Errorf("with %d pods beyond the limit the costs are %s", len(a)-1, got)
	}
	before := w.costs()
	w.pass()
	w.is("costs at rest", w.costs(), before)
}

func TestPodsWithoutSubsetGoFirst(t *testing.T) {
	w := newWorld(t, "Deployment", "2", "")
	w.add("a", "v1", 1)
	w.add("gone", "v1", 1)
	w.add("", "v1", 1)[0].Spec.NodeName = ""
	w.pass()
	w.is("costs", w.costs(), "200 -300 -300")
	c, found := conditions.Find(conditions.From(w.ws.Status.Conditions), appsv1beta1.WorkloadSpreadPodsWithoutSubset)
	if !found || !strings.Contains(c.Message, "2 pods are in no subset (web-01, web-02)") {
		t.Errorf("the condition is %+v", c)
	}
	w.seen.Pods = w.seen.Pods[:1]
	w.pass()
	if _, found := conditions.Find(conditions.From(w.ws.Status.Conditions), appsv1beta1.WorkloadSpreadPodsWithoutSubset); found {
		t.Error("the condition is still there")
	}
}

func TestOldPodsLeaveTheFirstSubsetFirst(t *testing.T) { // example E4
	w := newWorld(t, "Deployment", "2", "")
	w.add("a", "v1", 2)
	w.add("b", "v1", 2)
	w.add("a", "v2", 1)
	w.seen.Latest = "v2"
	w.pass()
	w.is("costs", w.costs(), "100 100 200 200 200")
	w.is("v1", counts(w.ws.Status.VersionedSubsetStatuses["v1"]), "a 2/0, b 2/-1")
	w.is("v2", counts(w.ws.Status.VersionedSubsetStatuses["v2"]), "a 1/1, b 0/-1")
	w.is("all", counts(w.ws.Status.SubsetStatuses), "a 3/0, b 2/-1")
}

func TestOnlySomeKindsHaveCosts(t *testing.T) {
	for _, kind := range []string{"Job", "StatefulSet"} {
		w := newWorld(t, kind, "2", "")
		w.add("a", "", 2)
		if d := w.pass(); len(d.Actions) > 0 {
			t.Errorf("%s: %d actions", kind, len(d.Actions))
		}
	}
}

func TestPodsOfBeforeGetTheSubsetOfTheirNode(t *testing.T) {
	in := func(zone string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}}
	}
	w := newWorld(t, "Deployment", "1", "", "")
	required := in("a")
	w.ws.Spec.Subsets[0].RequiredNodeSelector = &required
	w.ws.Spec.Subsets[0].Patch = runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"subset":"a"},"annotations":{"x":"y"}}}`)}
	w.ws.Spec.Subsets[1].PreferredNodeSelector = []corev1.PreferredSchedulingTerm{{Weight: 5, Preference: in("b")}}
	w.seen.Nodes = map[string]*corev1.Node{}
	for _, zone := range []string{"b", "a", "c"} {
		w.add("", "v1", 1)[0].Spec.NodeName = zone
		w.seen.Nodes[zone] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: zone, Labels: map[string]string{"zone": zone}}}
	}
	w.ws.Spec.Subsets[2].Patch = runtime.RawExtension{Raw: []byte(`{"spec":{"priorityClassName":"low"}}`)}
	w.pass()
	var got []string
	for _, pod := range w.seen.Pods {
		mark, _ := spread.MarkOf(pod.Annotations)
		got = append(got, mark.Subset+pod.Labels["subset"]+pod.Annotations["x"])
	}
	// In zone a the patch of subset a would change the pod, so b is better.
	w.is("subsets", strings.Join(got, " "), "b b b")

	w.ws.Spec.Subsets[1].Patch = runtime.RawExtension{Raw: []byte(`{"spec":{"priorityClassName":"low"}}`)}
	w.seen.Pods = w.seen.Pods[:0]
	w.add("", "v1", 1)[0].Spec.NodeName = "a"
	w.pass()
	pod := w.seen.Pods[0]
	mark, _ := spread.MarkOf(pod.Annotations)
	w.is("the first on ties", mark.Subset+pod.Labels["subset"]+pod.Annotations["x"], "aay")

	w.ws.Annotations = map[string]string{shared.AnnotationSpreadIgnoreMetadata: "true"}
	w.seen.Pods = w.seen.Pods[:0]
	w.add("", "v1", 1)[0].Spec.NodeName = "a"
	w.pass()
	mark, _ = spread.MarkOf(w.seen.Pods[0].Annotations)
	w.is("without metadata", mark.Subset+w.seen.Pods[0].Labels["subset"], "a")
}

// The cache has no templates of others' pods: only those that decide are read.
func TestTheTemplateDecidesBetweenFittingSubsets(t *testing.T) {
	w := newWorld(t, "Deployment", "", "")
	pod, node := w.add("", "v1", 1)[0], &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	w.seen.Nodes = map[string]*corev1.Node{"n": node}
	decides := func() string { return strconv.FormatBool(TemplateDecides(w.parsed(), pod, node)) }
	w.is("without patches", decides(), "false")
	w.ws.Spec.Subsets[1].Patch = runtime.RawExtension{Raw: []byte(`{"spec":{"priorityClassName":"low"}}`)}
	w.is("with a patch", decides(), "true")

	w.seen.Unread = sets.New(pod.Name)
	d := w.pass()
	_, marked := spread.MarkOf(w.seen.Pods[0].Annotations)
	w.is("marked, looked at again", fmt.Sprint(marked, d.RecheckAfter > 0), "false true")

	w.ws.Spec.Subsets[0].RequiredNodeSelector = &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpExists}}}
	w.is("with one subset that fits", decides(), "false")
}

func TestPodsOfBeforeGetASubsetThatToleratesTheirNode(t *testing.T) {
	w := newWorld(t, "Deployment", "", "")
	w.ws.Spec.Subsets[1].Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
	w.add("", "v1", 1)
	taints := []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectNoSchedule}, {Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
	w.seen.Nodes = map[string]*corev1.Node{"n": {ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: taints, Unschedulable: true}}}
	w.pass()
	mark, _ := spread.MarkOf(w.seen.Pods[0].Annotations)
	w.is("subset", mark.Subset, "b")
}

func TestAdmittedPodsCountUntilTheyAreSeen(t *testing.T) {
	w := newWorld(t, "Deployment", "3", "")
	w.add("a", "v1", 1)
	at := func(ago time.Duration) metav1.Time { return metav1.NewTime(now().Add(-ago)) }
	w.seen.Pods[0].Annotations[shared.AnnotationMatchedWorkloadSpread] = `{"name":"ws","subset":"a","uid":"seen"}`
	w.ws.Status.VersionedSubsetStatuses = map[string][]appsv1beta1.WorkloadSpreadSubsetStatus{
		"v1": {{Name: "a", CreatingPods: map[string]metav1.Time{"seen": at(0), "coming": at(10 * time.Second), "lost": at(31 * time.Second)}}},
		"v0": {{Name: "a", CreatingPods: map[string]metav1.Time{"old": at(40 * time.Second)}}},
	}
	d := w.pass()
	w.is("status", counts(w.ws.Status.VersionedSubsetStatuses["v1"]), "a 1/1, b 0/-1")
	if got := w.ws.Status.VersionedSubsetStatuses["v1"][0].CreatingPods; len(got) != 1 || got["coming"] != at(10*time.Second) {
		t.Errorf("counted are %v", got)
	}
	if _, kept := w.ws.Status.VersionedSubsetStatuses["v0"]; kept {
		t.Error("a version without pods is kept")
	}
	if len(d.Events) != 2 || d.Events[0].Reason != "CreatePodFailed" || d.RecheckAfter != 20*time.Second {
		t.Errorf("events %v, again after %v", d.Events, d.RecheckAfter)
	}
}

// adaptive gives subsets up after 30 seconds.
func (w *world) adaptive() {
	w.ws.Spec.ScheduleStrategy = appsv1beta1.WorkloadSpreadScheduleStrategy{
		Type: appsv1beta1.AdaptiveWorkloadSpreadScheduleStrategyType, Adaptive: &appsv1beta1.AdaptiveWorkloadSpreadStrategy{RescheduleCriticalSeconds: ptr.To[int32](30)},
	}
}

func unscheduled(pods []*corev1.Pod, since time.Time) {
	for _, pod := range pods {
		pod.Spec.NodeName, pod.CreationTimestamp = "", metav1.NewTime(since)
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}}
	}
}

func (w *world) shut() string { return fmt.Sprint(w.parsed().Shut(w.ws.Status.SubsetStatuses)) }

func deletions(d Decision) int {
	n := 0
	for _, a := range d.Actions {
		if a.Step == podset.StepDelete {
			n++
		}
	}
	return n
}

func TestSubsetsWithoutRoomOnNodesAreGivenUp(t *testing.T) { // example E5
	w := newWorld(t, "CloneSet", "3", "")
	w.adaptive()
	unscheduled(w.add("a", "", 3), now().Add(-20*time.Second))
	d := w.pass()
	w.is("before the limit", w.shut(), "[false false]")
	if d.RecheckAfter != 10*time.Second {
		t.Errorf("again after %v", d.RecheckAfter)
	}
	w.seen.Now = now().Add(10 * time.Second)
	d = w.pass()
	w.is("at the limit", w.shut(), "[true false]")
	if deletions(d) != 0 {
		t.Error("pods are deleted before the status is stored")
	}
	if d = w.pass(); deletions(d) != 3 {
		t.Errorf("%d pods are deleted, want 3", deletions(d))
	}
	w.seen.Pods = nil
	w.seen.Now = w.seen.Now.Add(recoverAfter - time.Second)
	w.pass()
	w.is("before 5 minutes", w.shut(), "[true false]")
	w.seen.Now = w.seen.Now.Add(time.Second)
	d = w.pass()
	w.is("after 5 minutes", w.shut(), "[false false]")
	if len(d.Events) != 1 || d.Events[0].Reason != "RecoverSchedulable" {
		t.Errorf("events %v", d.Events)
	}
}

func TestTheLastSubsetIsNeverGivenUp(t *testing.T) {
	w := newWorld(t, "CloneSet", "3", "")
	w.adaptive()
	unscheduled(w.add("b", "", 1), now().Add(-time.Hour))
	w.pass()
	d := w.pass()
	w.is("shut", w.shut(), "[false false]")
	if deletions(d) != 0 {
		t.Error("its pod is deleted")
	}
	w.ws.Spec.ScheduleStrategy.Adaptive.RescheduleCriticalSeconds = ptr.To[int32](0)
	w.pass()
	if got := w.ws.Status.SubsetStatuses[0].Conditions; len(got) > 0 {
		t.Errorf("off, there are conditions: %v", got)
	}
}

// The end of example E5: a subset that still has no room is given up again.
func TestARecoveredSubsetIsTriedAgain(t *testing.T) {
	w := newWorld(t, "CloneSet", "3", "")
	w.adaptive()
	w.add("b", "", 3)
	w.ws.Status.SubsetStatuses = []appsv1beta1.WorkloadSpreadSubsetStatus{{Name: "a", Conditions: []metav1.Condition{turned(now().Add(-recoverAfter), false)}}}
	w.pass()
	w.is("after 5 minutes", w.shut(), "[false false]")
	unscheduled(w.add("a", "", 2), now())
	w.seen.Now = now().Add(30 * time.Second)
	w.pass()
	w.is("30 seconds later", w.shut(), "[true false]")
	if d := w.pass(); deletions(d) != 2 {
		t.Errorf("%d pods are deleted, want 2", deletions(d))
	}
}

func TestSubsetsAreGivenUpInTurn(t *testing.T) {
	for _, limits := range [][]string{{""}, {"1", ""}, {"1", "1", ""}} {
		w := newWorld(t, "Deployment", limits...)
		w.adaptive()
		for i := range limits {
			unscheduled(w.add(string(rune('a'+i)), "", 1), now().Add(-time.Minute))
		}
		w.pass()
		if d := w.pass(); deletions(d) != len(limits)-1 || strings.Count(w.shut(), "true") != len(limits)-1 {
			t.Errorf("of %d subsets %s are shut, and %d pods deleted", len(limits), w.shut(), deletions(d))
		}
	}
}

func TestAMissingWorkloadIsLookedForAgain(t *testing.T) {
	w := newWorld(t, "Deployment", "")
	if d := w.pass(); d.RecheckAfter != 0 {
		t.Errorf("again after %v", d.RecheckAfter)
	}
	w.seen.Found = false
	if d := w.pass(); d.RecheckAfter != time.Minute {
		t.Errorf("without a workload again after %v", d.RecheckAfter)
	}
}

func TestSubsetsAreKnownByName(t *testing.T) {
	w := newWorld(t, "CloneSet", "2", "")
	w.add("a", "", 2)
	w.add("b", "", 1)
	w.ws.Status.VersionedSubsetStatuses = map[string][]appsv1beta1.WorkloadSpreadSubsetStatus{
		spread.AnyVersion: {{Name: "a", CreatingPods: map[string]metav1.Time{"coming": metav1.NewTime(now())}}},
	}
	w.ws.Spec.Subsets[0], w.ws.Spec.Subsets[1] = w.ws.Spec.Subsets[1], w.ws.Spec.Subsets[0]
	w.pass()
	w.is("status in the new order", counts(w.ws.Status.SubsetStatuses), "b 1/-1, a 2/0")
	w.is("costs in the new order", w.costs(), "100 100 200")
	if got := w.ws.Status.VersionedSubsetStatuses[spread.AnyVersion][1].CreatingPods; len(got) != 1 {
		t.Errorf("the pod to come is lost: %v", got)
	}
}

func TestProgress(t *testing.T) {
	for name, tc := range map[string]struct {
		seen    Snapshot
		invalid error
		outcome planning.Outcome
		reason  string
		stalled bool
	}{
		"all is well":               {seen: Snapshot{Found: true}, reason: appsv1beta1.ReasonSpread},
		"no workload":               {reason: appsv1beta1.ReasonTargetNotFound},
		"a kind that is not listed": {seen: Snapshot{Unsupported: "no"}, reason: appsv1beta1.ReasonTargetUnsupported, stalled: true},
		"a hook not yet there":      {seen: Snapshot{Found: true, HookPending: true}, reason: appsv1beta1.ReasonNotRegistered},
		"a hook that is refused":    {seen: Snapshot{Found: true, HookFault: "no"}, reason: appsv1beta1.ReasonNotRegistered, stalled: true},
		"a patch that does not fit": {seen: Snapshot{Found: true, PatchFault: "spec.subsets[0].patch: it changes labels"}, reason: appsv1beta1.ReasonInvalidSpec, stalled: true},
		"a fault of the spec":       {invalid: errors.New("spec"), reason: appsv1beta1.ReasonInvalidSpec, stalled: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := progressOf(tc.seen, tc.outcome, tc.invalid); got.Reason != tc.reason || got.Stalled != tc.stalled {
				t.Errorf("got %+v", got)
			}
		})
	}
}
