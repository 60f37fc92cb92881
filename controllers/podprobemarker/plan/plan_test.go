// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// simulation is a marker with one probe, and two nodes with a pod each: everything is done.
type simulation struct {
	marker *appsv1alpha1.PodProbeMarker
	s      Snapshot
}

func newSimulation() *simulation {
	m := &appsv1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "game", UID: "uid", Generation: 3, ResourceVersion: "7", Finalizers: []string{"other", appsv1alpha1.FinalizerPodProbeMarker},
	}}
	m.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "game"}}
	m.Spec.Probes = []appsv1alpha1.PodContainerProbe{{
		Name: "idle", ContainerName: "app", PodConditionType: "game.io/idle",
		Probe: corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/idle.sh"}}}},
	}}
	w := &simulation{marker: m, s: Snapshot{Now: noon, Since: noon.Add(-time.Hour)}}
	for i := range 2 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("p%d", i), UID: types.UID(fmt.Sprintf("u%d", i))}}
		pod.Spec.Containers = []corev1.Container{{Name: "app"}}
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}, {Type: "game.io/idle", Status: corev1.ConditionTrue, Message: "idle"},
		}
		w.s.Nodes = append(w.s.Nodes, Node{Name: fmt.Sprintf("n%d", i), UID: "node", Listed: true, Pods: []Pod{{
			Object: pod, Asked: []string{"game#idle"},
			Results: []appsv1alpha1.ContainerProbeState{{Name: "game#idle", State: appsv1alpha1.ProbeSucceeded, Message: "idle"}},
		}}})
	}
	return w
}

func (w *simulation) pod(i int) *Pod { return &w.s.Nodes[i].Pods[0] }

func (w *simulation) plan() (Decision, appsv1alpha1.PodProbeMarkerStatus) {
	spec := Parse(w.marker)
	d := Plan(spec, w.s)
	return d, Status(spec, w.s, d, planning.Outcome{Done: len(d.Actions)})
}

// expect checks for both conditions with these texts.
func expect(t *testing.T, status appsv1alpha1.PodProbeMarkerStatus, reconciling, stalled bool, reason, message string) {
	t.Helper()
	for kind, want := range map[string]bool{"Reconciling": reconciling, "Stalled": stalled} {
		c := meta.FindStatusCondition(status.Conditions, kind)
		if c == nil {
			t.Errorf("there is no condition %s", kind)
			continue
		}
		if (c.Status == metav1.ConditionTrue) != want {
			t.Errorf("%s is %s: %s", kind, c.Status, c.Message)
		}
		if (kind == "Reconciling" || want) && (c.Reason != reason || !strings.Contains(c.Message, message)) {
			t.Errorf("%s is %s: %s, want %s: ...%s", kind, c.Reason, c.Message, reason, message)
		}
	}
}

func steps(d Decision) string {
	var all []string
	for _, a := range d.Actions {
		all = append(all, string(a.Step)+" "+a.Object.GetName())
	}
	return strings.Join(all, ", ")
}

// TestWhyItDoesNotMove checks conditions and writes in each situation.
func TestWhyItDoesNotMove(t *testing.T) {
	cases := map[string]struct {
		change                 func(*simulation)
		steps, reason, message string
		reconciling, stalled   bool
		recheck                time.Duration
	}{
		"all is done": {func(*simulation) {}, "", appsv1alpha1.ReasonProbing, "Every chosen pod", false, false, 0},
		"new": {func(w *simulation) {
			w.marker.Finalizers = nil
			w.s.Nodes[0].Listed, w.pod(0).Asked, w.pod(0).Results = false, nil, nil
		},
			"Hold game", appsv1alpha1.ReasonWaitingForResults, "being asked", true, false, 0},
		"a node without a list": {func(w *simulation) { w.s.Nodes[1].Listed, w.pod(1).Asked, w.pod(1).Results = false, nil, nil },
			"AskNode n1", appsv1alpha1.ReasonWaitingForResults, "being asked", true, false, 0},
		"a list without the probe": {func(w *simulation) { w.pod(1).Asked, w.pod(1).Results = nil, nil },
			"", appsv1alpha1.ReasonWaitingForResults, "being asked", true, false, 10 * time.Second},
		"a list without the probe for a while": {func(w *simulation) { w.unasked(noon.Add(-115 * time.Second)) },
			"", appsv1alpha1.ReasonWaitingForResults, "being asked", true, false, 5 * time.Second},
		"a list without the probe for too long": {func(w *simulation) { w.unasked(noon.Add(-2 * time.Minute)) },
			"", appsv1alpha1.ReasonNodeNotAsked, "for two minutes (n1)", false, true, 0},
		"a list that is full": {func(w *simulation) { w.unasked(noon); w.s.Nodes[1].Full = true },
			"", appsv1alpha1.ReasonNodeProbesFull, "cannot be asked for more (pod p1 on node n1)", false, true, 0},
		"a list that is full and has the probe": {func(w *simulation) { w.s.Nodes[1].Full = true }, "", appsv1alpha1.ReasonProbing, "Every chosen pod", false, false, 0},
		"no result yet": {func(w *simulation) { w.pod(0).Results = nil; w.s.Since = noon.Add(-time.Minute) },
			"", appsv1alpha1.ReasonWaitingForResults, "no result yet", true, false, 33 * time.Second},
		"no result for too long, and no daemon": {func(w *simulation) { w.pod(0).Results = nil; w.s.Daemon = "no pod of the node daemon is on node n0." },
			"", appsv1alpha1.ReasonNodeDaemonSilent, "on 1 node (n0): no pod of the node daemon", false, true, 0},
		"results, and no daemon any more": {func(w *simulation) { w.s.Daemon = "There is no node daemon in the cluster." },
			"", appsv1alpha1.ReasonNodeDaemonOff, "no node daemon", false, true, 0},
		"results that the pod does not tell": {func(w *simulation) { w.pod(0).Results[0].State = appsv1alpha1.ProbeFailed },
			"", appsv1alpha1.ReasonMarking, "Results are written", true, false, 2 * time.Second},
		"results that the pod has not told for a while": {func(w *simulation) { w.unmarked(noon.Add(-119 * time.Second)) },
			"", appsv1alpha1.ReasonMarking, "Results are written", true, false, 2 * time.Second},
		"results that the pod has not told for too long": {func(w *simulation) { w.unmarked(noon.Add(-2 * time.Minute)) },
			"", appsv1alpha1.ReasonPodsNotMarked, "not reached 1 pod for two minutes (p0)", false, true, 10 * time.Second},
		"a probe that cannot be run": {func(w *simulation) { w.pod(1).Results[0].Error = "no shell" },
			"", appsv1alpha1.ReasonProbeNotRun, "pod p1, probe idle: no shell", false, true, 0},
		"a container that is not there": {func(w *simulation) { w.pod(1).Object.Spec.Containers[0].Name = "other" },
			"", appsv1alpha1.ReasonProbeNotPossible, "pod p1, probe idle: the pod has no container app", false, true, 0},
		"a port that is not there": {func(w *simulation) {
			w.marker.Spec.Probes[0].Probe.ProbeHandler = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("web")}}
		}, "", appsv1alpha1.ReasonProbeNotPossible, "container app has no port web", false, true, 0},
		"another marker writes the condition": {func(w *simulation) {
			w.s.Others = []*probing.Marker{{Namespace: "ns", Name: "first", Probes: w.marker.Spec.Probes}}
		}, "", appsv1alpha1.ReasonConditionTaken, "game.io/idle, which PodProbeMarker first writes", false, true, 0},
		"this one writes the condition of another": {func(w *simulation) {
			w.s.Others = []*probing.Marker{{Namespace: "ns", Name: "last", Probes: w.marker.Spec.Probes}}
		}, "", appsv1alpha1.ReasonProbing, "Every chosen pod", false, false, 0},
		"a virtual node":     {func(w *simulation) { w.s.Nodes[0].Virtual, w.s.Nodes[0].Listed = true, false }, "", appsv1alpha1.ReasonVirtualNodes, "1 pod on virtual nodes cannot be probed, and are skipped (p0)", false, true, 0},
		"no pod":             {func(w *simulation) { w.s.Nodes = nil }, "", appsv1alpha1.ReasonNoMatchingPod, "No pod of the namespace", false, false, 0},
		"off":                {func(w *simulation) { w.s.Off = "the kind NodePodProbe is off" }, "", appsv1alpha1.ReasonProbesOff, "the kind NodePodProbe is off", false, true, 0},
		"an invalid spec":    {func(w *simulation) { w.marker.Spec.Selector = nil }, "", appsv1beta1.ReasonInvalidSpec, "spec.selector", false, true, 0},
		"deleted, in a list": {func(w *simulation) { w.unreleased(noon) }, "", appsv1beta1.ReasonDeleting, "Conditions stay", true, false, 10 * time.Second},
		"deleted, and in a list for too long": {func(w *simulation) { w.unreleased(noon.Add(-2 * time.Minute)) },
			"", appsv1beta1.ReasonDeleting, "more than two minutes on 1 node (n1)", false, true, 0},
		"deleted, and in no list any more": {func(w *simulation) { w.marker.DeletionTimestamp = &metav1.Time{Time: noon} },
			"Release game", appsv1beta1.ReasonDeleting, "", true, false, 0},
		"deleted, while nothing is carried out": {func(w *simulation) {
			w.marker.DeletionTimestamp = &metav1.Time{Time: noon}
			w.s.Off, w.s.Carried = "off", []string{"n1"}
		},
			"Release game", appsv1beta1.ReasonDeleting, "", true, false, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation()
			tc.change(w)
			d, status := w.plan()
			if got := steps(d); got != tc.steps {
				t.Errorf("steps %q, want %q", got, tc.steps)
			}
			if d.RecheckAfter != tc.recheck {
				t.Errorf("again after %s, want %s", d.RecheckAfter, tc.recheck)
			}
			expect(t, status, tc.reconciling, tc.stalled, tc.reason, tc.message)
			if status.ObservedGeneration != 3 {
				t.Errorf("observed generation %d", status.ObservedGeneration)
			}
		})
	}
}

// unasked has the list of n1 without the probe, since then.
func (w *simulation) unasked(since time.Time) {
	w.pod(1).Asked, w.pod(1).Results = nil, nil
	w.s.Behind = map[string]time.Time{"n1": since}
}

// unmarked leaves the pod p0 without its result since then.
func (w *simulation) unmarked(since time.Time) {
	w.pod(0).Results[0].State = appsv1alpha1.ProbeFailed
	w.s.Unmarked = map[string]time.Time{"p0": since}
}

// unreleased keeps probes of the deleted marker in the list of n1 since then.
func (w *simulation) unreleased(since time.Time) {
	w.marker.DeletionTimestamp = &metav1.Time{Time: noon}
	w.s.Carried, w.s.Behind = []string{"n1"}, map[string]time.Time{"n1": since}
}

// Time counts from the first pass to find it, only while it
// lasts: a pod with results written each time is not stuck.
func TestSinceWhenPodsAreWithoutTheirResults(t *testing.T) {
	w := newSimulation()
	w.unmarked(time.Time{})
	w.s.Unmarked = nil
	for _, pass := range []time.Duration{0, time.Minute} {
		w.s.Now = noon.Add(pass)
		d, _ := w.plan()
		if w.s.Waits = d.Waits; len(d.Unmarked) != 1 || !d.Unmarked["p0"].Equal(noon) {
			t.Errorf("after %s: since %v", pass, d.Unmarked)
		}
	}
	w.pod(0).Results[0].State = appsv1alpha1.ProbeSucceeded
	if d, _ := w.plan(); len(d.Unmarked) > 0 {
		t.Errorf("the pod has them, and is without them since %v", d.Unmarked)
	}
}

// Time counts from the first pass to find it, only while it lasts.
func TestSinceWhenAListIsWithoutProbes(t *testing.T) {
	w := newSimulation()
	w.unasked(time.Time{})
	w.s.Behind = nil
	for _, pass := range []time.Duration{0, time.Minute} {
		w.s.Now = noon.Add(pass)
		d, _ := w.plan()
		if w.s.Behind = d.Behind; len(d.Behind) != 1 || !d.Behind["n1"].Equal(noon) {
			t.Errorf("after %s: since %v", pass, d.Behind)
		}
	}
	w.pod(1).Asked = []string{"game#idle"}
	if d, _ := w.plan(); len(d.Behind) > 0 {
		t.Errorf("the list has them, and is without them since %v", d.Behind)
	}
}

// TestAListIsMadeThatIsNotTooLong: a new list is limited as well, and says so.
func TestAListIsMadeThatIsNotTooLong(t *testing.T) {
	w := newSimulation()
	w.s.Nodes = w.s.Nodes[:1]
	node := &w.s.Nodes[0]
	node.Listed = false
	w.marker.Spec.Probes[0].Probe.Exec.Command = []string{strings.Repeat("x", 4096)}
	for i := range 300 {
		pod := w.pod(0).Object.DeepCopy()
		pod.Name, pod.UID = fmt.Sprintf("q%03d", i), types.UID(fmt.Sprintf("q%03d", i))
		node.Pods = append(node.Pods, Pod{Object: pod})
	}
	d, _ := w.plan()
	if refused := d.Actions[0].Failure; refused.Reason != "FailedCreate" || !refused.Warning {
		t.Errorf("refused: %+v", refused)
	}
	list := d.Actions[0].Object.(*appsv1alpha1.NodePodProbe)
	body, err := json.Marshal(list.Spec)
	if err != nil || len(body) > 768<<10+100 || len(body) < 700<<10 {
		t.Errorf("%d bytes: %v", len(body), err)
	}
	if got := list.Annotations[appsv1alpha1.AnnotationProbesLeftOut]; got != "ns" {
		t.Errorf("left out of %q", got)
	}
}

// A pass over 1000 pods with 32 probes beside 1000 markers with as many. Comparing
// all probes for each pod would take a thousand million comparisons, and 20 s.
func BenchmarkPlanBesideManyMarkers(b *testing.B) {
	w := newSimulation()
	w.s.Nodes = w.s.Nodes[:1]
	of := w.marker.Spec.Probes[0]
	w.marker.Spec.Probes = nil
	pod := w.s.Nodes[0].Pods[0]
	pod.Asked, pod.Results = nil, nil
	for i := range 32 {
		of.Name, of.PodConditionType = fmt.Sprintf("p%02d", i), fmt.Sprintf("game.io/condition-of-marker-%05d", i)
		w.marker.Spec.Probes = append(w.marker.Spec.Probes, of)
		pod.Asked = append(pod.Asked, "game#"+of.Name)
		pod.Results = append(pod.Results, appsv1alpha1.ContainerProbeState{Name: "game#" + of.Name, State: appsv1alpha1.ProbeSucceeded})
	}
	for i := range 1000 {
		other := &probing.Marker{Namespace: "ns", Name: fmt.Sprintf("m%d", i), Selector: labels.Everything()}
		for j := range 32 {
			other.Probes = append(other.Probes, appsv1alpha1.PodContainerProbe{Name: "x", PodConditionType: fmt.Sprintf("game.io/condition-of-marker-%05d", 1000+32*i+j)})
		}
		w.s.Others = append(w.s.Others, other)
	}
	w.s.Nodes[0].Pods = slices.Repeat([]Pod{pod}, 1000)
	spec := Parse(w.marker)
	for b.Loop() {
		Plan(spec, w.s)
	}
}

// The status stays as it is while nothing changes but the time.
func TestTheStatusRests(t *testing.T) {
	w := newSimulation()
	_, status := w.plan()
	w.marker.Status = status
	w.s.Now = noon.Add(time.Hour)
	if _, again := w.plan(); fmt.Sprint(again) != fmt.Sprint(status) || again.MatchedPods != 2 {
		t.Errorf("it becomes %+v, and was %+v", again, status)
	}
}

func TestAListIsMadeWhole(t *testing.T) {
	w := newSimulation()
	w.s.Nodes[0].Listed = false
	second := *w.pod(0)
	second.Object = second.Object.DeepCopy()
	second.Object.Name, second.Object.UID, second.Object.Status.PodIP = "p9", "u9", "10.0.0.9"
	w.s.Nodes[0].Pods = append(w.s.Nodes[0].Pods, second)
	d, _ := w.plan()
	if len(d.Actions) != 1 {
		t.Fatalf("%d writes for the two pods of a node", len(d.Actions))
	}
	list, ok := d.Actions[0].Object.(*appsv1alpha1.NodePodProbe)
	if !ok || list.Name != "n0" || len(list.OwnerReferences) != 1 || list.OwnerReferences[0].UID != "node" || !d.Actions[0].KeepExisting {
		t.Fatalf("made is %+v", d.Actions[0].Object)
	}
	if p := list.Spec.PodProbes; len(p) != 2 || p[1].UID != "u9" || p[1].IP != "10.0.0.9" || p[1].Probes[0].Name != "game#idle" || p[1].Probes[0].Probe.PeriodSeconds != 10 {
		t.Errorf("asked is %+v", p)
	}
}

func TestAnnouncements(t *testing.T) {
	w := newSimulation()
	_, well := w.plan()
	w.pod(0).Results[0].Error = "no shell"
	_, bad := w.plan()
	if events := Events(&well, &bad); len(events) != 1 || !events[0].Warning || events[0].Reason != appsv1alpha1.ReasonProbeNotRun {
		t.Errorf("events %+v", events)
	}
	if events := slices.Concat(Events(&bad, &bad), Events(&bad, &well)); len(events) > 0 {
		t.Errorf("told again: %+v", events)
	}
}

// A recently initialized pod gets its time, however old the marker.
func TestNodesAreSilentOnlyAfterTheResultTimeout(t *testing.T) {
	w := newSimulation()
	w.pod(0).Results = nil
	podstate.Condition(w.pod(0).Object, corev1.PodInitialized).LastTransitionTime = metav1.NewTime(noon.Add(-time.Second))
	if d, _ := w.plan(); len(d.Silent) > 0 {
		t.Errorf("silent: %v", d.Silent)
	}
	w.s.Now = noon.Add(2 * time.Minute)
	if d, _ := w.plan(); !slices.Equal(d.Silent, []string{"n0"}) {
		t.Errorf("silent after two minutes: %v", d.Silent)
	}
}
