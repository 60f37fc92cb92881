// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
)

const cost = "controller.kubernetes.io/pod-deletion-cost"

// simulation is a node with pods and markers, and a daemon under the test's control. Every write counts.
type simulation struct {
	t       *testing.T
	now     time.Time
	list    *appsv1alpha1.NodePodProbe
	pods    map[string]*corev1.Pod
	markers map[string]*appsv1alpha1.PodProbeMarker
	// asked counts writes of the list, marked the pods'.
	asked, marked int
	gone          bool
	// selected are the labels pods' controllers select by.
	selected map[types.UID]sets.Set[string]
	// failures, unless nil, gets the event of each step if refused.
	failures map[planning.Step]planning.Event
}

func newSimulation(t *testing.T) *simulation {
	t.Helper()
	list := &appsv1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "list", ResourceVersion: "1"}}
	return &simulation{
		t: t, now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), list: list,
		pods: map[string]*corev1.Pod{}, markers: map[string]*appsv1alpha1.PodProbeMarker{},
	}
}

// pod adds an initialized pod with containers app and sidecar, both with a port of the same name.
func (w *simulation) pod(namespace, name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID("uid-" + namespace + "-" + name), Labels: map[string]string{"app": "game"},
	}}
	pod.Spec.NodeName = "n1"
	pod.Spec.Containers = []corev1.Container{
		{Name: "app", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}},
		{Name: "sidecar", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 9090}}},
	}
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, "10.0.0.1"
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}}
	w.pods[namespace+"/"+name] = pod
	return pod
}

func (w *simulation) marker(namespace, name string, probes ...appsv1alpha1.PodContainerProbe) *appsv1alpha1.PodProbeMarker {
	m := &appsv1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	m.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "game"}}
	m.Spec.Probes = probes
	w.markers[namespace+"/"+name] = m
	return m
}

// idle is the probe of the users' game.
func idle(policies ...appsv1alpha1.ProbeMarkerPolicy) appsv1alpha1.PodContainerProbe {
	return appsv1alpha1.PodContainerProbe{
		Name: "idle", ContainerName: "app", PodConditionType: "game.io/idle", MarkerPolicy: policies,
		Probe: corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/idle.sh"}}}},
	}
}

func when(state appsv1alpha1.ProbeState, label, deletionCost string) appsv1alpha1.ProbeMarkerPolicy {
	p := appsv1alpha1.ProbeMarkerPolicy{State: state}
	if label != "" {
		p.Labels = map[string]string{label: "true"}
	}
	if deletionCost != "" {
		p.Annotations = map[string]string{cost: deletionCost}
	}
	return p
}

func (w *simulation) pass() {
	w.t.Helper()
	s := Snapshot{Now: w.now, Node: !w.gone, Selected: w.selected}
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		s.Pods = append(s.Pods, w.pods[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.markers)) {
		m, err := probing.Parse(w.markers[name])
		if err != nil {
			w.t.Fatal(err)
		}
		s.Markers = append(s.Markers, m)
	}
	for _, a := range Plan(w.list, s).Actions {
		if w.failures != nil {
			w.failures[a.Step] = a.Failure
		}
		switch a.Step {
		case StepAsk:
			w.asked++
			body := struct {
				Metadata struct{ Annotations map[string]*string }
				Spec     appsv1alpha1.NodePodProbeSpec
			}{}
			text, err := a.Change.Requests(a.Object)[0].Body(planning.Version{})
			if err == nil {
				err = json.Unmarshal(text, &body)
			}
			if err != nil {
				w.t.Fatal(err)
			}
			w.list.Spec = body.Spec
			for key, value := range body.Metadata.Annotations {
				if delete(w.list.Annotations, key); value != nil {
					metav1.SetMetaDataAnnotation(&w.list.ObjectMeta, key, *value)
				}
			}
		case StepMark:
			w.marked++
			pod := a.Object.(*corev1.Pod)
			w.pods[pod.Namespace+"/"+pod.Name] = podsettest.EditOf(a).Apply(pod)
		case StepDelete:
			w.list = nil
			return
		default:
			w.t.Fatalf("step %s", a.Step)
		}
	}
}

// settle passes until nothing is written.
func (w *simulation) settle() {
	w.t.Helper()
	for range 10 {
		before := w.asked + w.marked
		if w.pass(); w.list == nil || w.asked+w.marked == before {
			return
		}
	}
	w.t.Fatal("it goes on writing")
}

// say makes the daemon report a state, and forgets entries outside the list.
func (w *simulation) say(pod, key string, state appsv1alpha1.ProbeState, message string) {
	w.t.Helper()
	uid := string(w.pods[pod].UID)
	at := slices.IndexFunc(w.list.Status.PodProbeStatuses, func(s appsv1alpha1.PodProbeStatus) bool { return s.UID == uid })
	if at < 0 {
		w.list.Status.PodProbeStatuses = append(w.list.Status.PodProbeStatuses, appsv1alpha1.PodProbeStatus{UID: uid})
		at = len(w.list.Status.PodProbeStatuses) - 1
	}
	of := &w.list.Status.PodProbeStatuses[at]
	of.ProbeStates = slices.DeleteFunc(of.ProbeStates, func(s appsv1alpha1.ContainerProbeState) bool { return s.Name == key })
	now := podstate.Time(w.now)
	of.ProbeStates = append(of.ProbeStates, appsv1alpha1.ContainerProbeState{Name: key, State: state, Message: message, LastProbeTime: &now, LastTransitionTime: &now})
	slices.SortFunc(of.ProbeStates, func(a, b appsv1alpha1.ContainerProbeState) int { return cmp.Compare(a.Name, b.Name) })
}

// marksOf returns a pod's condition, its labels beside app, and its deletion cost.
func (w *simulation) marksOf(pod string) string {
	p := w.pods[pod]
	var parts []string
	if c := podstate.Condition(p, "game.io/idle"); c != nil {
		parts = append(parts, string(c.Status)+"("+c.Message+")")
	}
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		if key != "app" {
			parts = append(parts, key+"="+p.Labels[key])
		}
	}
	if c, ok := p.Annotations[cost]; ok {
		parts = append(parts, "cost="+c)
	}
	return strings.Join(parts, " ")
}

func (w *simulation) wants(pod, want string) {
	w.t.Helper()
	if got := w.marksOf(pod); got != want {
		w.t.Errorf("%s tells %q, want %q", pod, got, want)
	}
}

// keys are the probes in the list, by pod.
func (w *simulation) keys() string {
	var all []string
	for _, p := range w.list.Spec.PodProbes {
		var names []string
		for _, probe := range p.Probes {
			names = append(names, probe.Name)
		}
		all = append(all, p.Namespace+"/"+p.Name+":"+strings.Join(names, ","))
	}
	return strings.Join(all, " ")
}

func TestResultsAreWrittenToPods(t *testing.T) {
	w := newSimulation(t)
	for i := range 3 {
		w.pod("ns", fmt.Sprintf("pod-%d", i))
	}
	w.marker("ns", "game", idle(when("Succeeded", "", "-10"), when("Failed", "", "10")))
	w.settle()
	if w.asked != 1 {
		t.Errorf("the list was written %d times for 3 pods", w.asked)
	}
	w.say("ns/pod-0", "game#idle", "Failed", "busy")
	w.say("ns/pod-1", "game#idle", "Succeeded", "idle")
	w.say("ns/pod-2", "game#idle", "Failed", "busy")
	w.settle()
	w.wants("ns/pod-0", "False(busy) cost=10")
	w.wants("ns/pod-1", "True(idle) cost=-10")
	w.wants("ns/pod-2", "False(busy) cost=10")
	if w.asked != 1 || w.marked != 3 {
		t.Errorf("%d writes of the list and %d of pods, want 1 and 3", w.asked, w.marked)
	}
	w.say("ns/pod-1", "game#idle", "Failed", "busy")
	w.settle()
	w.wants("ns/pod-1", "False(busy) cost=10")
	if w.marked != 4 {
		t.Errorf("%d writes of pods after one has changed", w.marked)
	}
}

// TestResultsByPolicy is the table of states and policies, for a pod with both keys before.
func TestResultsByPolicy(t *testing.T) {
	succeeded, failed := when("Succeeded", "good", "-10"), when("Failed", "bad", "10")
	for name, tc := range map[string]struct {
		policies                      []appsv1alpha1.ProbeMarkerPolicy
		succeeded, failed, unknown, x string
	}{
		"none":           {nil, "True(m) bad=true good=true cost=0", "False(m) bad=true good=true cost=0", "False(m) bad=true good=true cost=0", ""},
		"succeeded only": {[]appsv1alpha1.ProbeMarkerPolicy{succeeded}, "True(m) bad=true good=true cost=-10", "False(m) bad=true", "False(m) bad=true", ""},
		"failed only":    {[]appsv1alpha1.ProbeMarkerPolicy{failed}, "True(m) good=true", "False(m) bad=true good=true cost=10", "False(m) good=true", ""},
		"both":           {[]appsv1alpha1.ProbeMarkerPolicy{succeeded, failed}, "True(m) good=true cost=-10", "False(m) bad=true cost=10", "False(m)", ""},
	} {
		for state, want := range map[appsv1alpha1.ProbeState]string{"Succeeded": tc.succeeded, "Failed": tc.failed, "Unknown": tc.unknown} {
			t.Run(name+", "+string(state), func(t *testing.T) {
				w := newSimulation(t)
				pod := w.pod("ns", "p")
				pod.Labels["good"], pod.Labels["bad"] = "true", "true"
				pod.Annotations = map[string]string{cost: "0"}
				w.marker("ns", "game", idle(tc.policies...))
				w.settle()
				w.say("ns/p", "game#idle", state, "m")
				w.settle()
				w.wants("ns/p", want)
				if w.marked != 1 {
					t.Errorf("%d writes of the pod", w.marked)
				}
			})
		}
	}
}

// A workload made after the marker selects by the label: it lost its pod and made another.
func TestALabelByWhichAControllerSelectsStays(t *testing.T) {
	w := newSimulation(t)
	pod := w.pod("ns", "p")
	pod.Labels["tier"] = "front"
	w.selected = map[types.UID]sets.Set[string]{pod.UID: sets.New("app", "tier")}
	w.marker("ns", "game", idle(when("Succeeded", "tier", "-10"), when("Failed", "broken", "")))
	w.settle()
	w.say("ns/p", "game#idle", "Succeeded", "")
	w.settle()
	w.wants("ns/p", "True() tier=front cost=-10")
	w.say("ns/p", "game#idle", "Failed", "")
	w.settle()
	w.wants("ns/p", "False() broken=true tier=front")
}

func TestOnePolicyIsTakenBackByTheOtherState(t *testing.T) {
	w := newSimulation(t)
	w.pod("ns", "p").Labels = map[string]string{"app": "game"}
	w.marker("ns", "game", idle(when("Failed", "broken", "")))
	w.settle()
	w.say("ns/p", "game#idle", "Failed", "")
	w.settle()
	w.wants("ns/p", "False() broken=true")
	w.say("ns/p", "game#idle", "Succeeded", "")
	w.settle()
	w.wants("ns/p", "True()")
}

func TestResultsAcrossARestartOfTheContainer(t *testing.T) {
	w := newSimulation(t)
	w.pod("ns", "p")
	w.marker("ns", "game", idle(when("Succeeded", "", "-10")))
	w.settle()
	for _, step := range []struct{ state, message, want string }{
		{"Succeeded", "idle", "True(idle) cost=-10"}, {"Failed", "Container(app) is Non-running", "False(Container(app) is Non-running)"},
		{"Unknown", "", "False()"}, {"Succeeded", "idle", "True(idle) cost=-10"},
	} {
		w.now = w.now.Add(time.Minute)
		w.say("ns/p", "game#idle", appsv1alpha1.ProbeState(step.state), step.message)
		w.settle()
		w.wants("ns/p", step.want)
	}
	if c := podstate.Condition(w.pods["ns/p"], "game.io/idle"); !c.LastTransitionTime.Time.Equal(w.now) || c.Reason != "" {
		t.Errorf("the condition is %+v", c)
	}
}

func TestNamedPortsBecomeNumbers(t *testing.T) {
	w := newSimulation(t)
	w.pod("ns", "p")
	probe := func(name, container, port string) appsv1alpha1.PodContainerProbe {
		p := idle()
		p.Name, p.ContainerName, p.PodConditionType = name, container, "c/"+name
		p.Probe.ProbeHandler = corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString(port)}}
		return p
	}
	w.marker("ns", "game", probe("web", "app", "web"), probe("none", "app", "admin"), probe("nobody", "other", "web"), probe("side", "sidecar", "web"))
	w.settle()
	if got := w.keys(); got != "ns/p:game#web,game#side" {
		t.Fatalf("the list has %s", got)
	}
	for i, want := range []int32{8080, 9090} {
		p := w.list.Spec.PodProbes[0].Probes[i].Probe
		if p.HTTPGet.Port != intstr.FromInt32(want) || p.HTTPGet.Scheme != "HTTP" || p.PeriodSeconds != 10 || p.FailureThreshold != 3 {
			t.Errorf("probe %d is %+v of %+v", i, p, p.HTTPGet)
		}
	}
}

func TestMarksGoWithTheirMarker(t *testing.T) {
	w := newSimulation(t)
	w.pod("ns", "p")
	m := w.marker("ns", "game", idle(when("Succeeded", "good", "-10")))
	w.settle()
	w.say("ns/p", "game#idle", "Succeeded", "idle")
	w.settle()
	now := metav1.NewTime(w.now)
	m.DeletionTimestamp = &now
	w.pass()
	if got := w.keys(); got != "ns/p:game#idle" {
		t.Errorf("the list forgets the probe before its marks are off the pod: %q", got)
	}
	w.settle()
	w.wants("ns/p", "True(idle)")
	if got := w.keys(); got != "" {
		t.Errorf("left is %s", got)
	}
	if w.asked != 2 || w.marked != 2 {
		t.Errorf("%d writes of the list and %d of the pod, want 2 and 2", w.asked, w.marked)
	}
}

func TestMarkersOfTwoNamespacesShareAList(t *testing.T) {
	w := newSimulation(t)
	w.pod("a", "x")
	w.pod("b", "x")
	w.marker("a", "p", idle())
	w.marker("b", "p", idle())
	w.settle()
	if got := w.keys(); got != "a/x:p#idle b/x:p#idle" {
		t.Fatalf("the list has %s", got)
	}
	delete(w.markers, "a/p")
	w.settle()
	if got := w.keys(); got != "b/x:p#idle" {
		t.Errorf("after a/p was deleted: %s", got)
	}
}

func TestNamesThatEndAlike(t *testing.T) {
	w := newSimulation(t)
	w.pod("ns", "x")
	w.marker("ns", "idle", idle())
	w.marker("ns", "very-idle", idle())
	w.settle()
	delete(w.markers, "ns/idle")
	w.settle()
	if got := w.keys(); got != "ns/x:very-idle#idle" {
		t.Errorf("after idle was deleted: %s", got)
	}
}

func TestWhatLeavesTheList(t *testing.T) {
	for name, tc := range map[string]struct {
		change    func(w *simulation)
		list, pod string
		maxWrites int
	}{
		"a pod that is not selected any more loses its marks": {func(w *simulation) { delete(w.pods["ns/p"].Labels, "app") }, "", "True(m)", 2},
		"a pod that is over is left as it is":                 {func(w *simulation) { w.pods["ns/p"].Status.Phase = corev1.PodSucceeded }, "", "True(m) good=true cost=-10", 1},
		"a pod that is gone":                                  {func(w *simulation) { delete(w.pods, "ns/p") }, "", "", 1},
		"a probe that is removed leaves its marks":            {func(w *simulation) { w.markers["ns/game"].Spec.Probes[0].Name = "other" }, "ns/p:game#other", "True(m) good=true cost=-10", 1},
		"another pod of that name is another pod":             {func(w *simulation) { w.pods["ns/p"].UID = "next" }, "ns/p:game#idle", "True(m) good=true cost=-10", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t)
			w.pod("ns", "p")
			w.marker("ns", "game", idle(when("Succeeded", "good", "-10")))
			w.settle()
			w.say("ns/p", "game#idle", "Succeeded", "m")
			w.settle()
			w.asked, w.marked = 0, 0
			tc.change(w)
			w.settle()
			if got := w.keys(); got != tc.list {
				t.Errorf("the list has %q, want %q", got, tc.list)
			}
			if w.pods["ns/p"] != nil {
				w.wants("ns/p", tc.pod)
			}
			if w.asked+w.marked > tc.maxWrites {
				t.Errorf("%d writes of the list and %d of pods", w.asked, w.marked)
			}
		})
	}
}

// Two markers share a key: the remaining one keeps it. A changed marker's old results must not go on deciding
// the order of deletion.
func TestMarksOfAProbeThatWasTakenOutGo(t *testing.T) {
	full := appsv1alpha1.PodContainerProbe{
		Name: "full", ContainerName: "app", Probe: idle().Probe, MarkerPolicy: []appsv1alpha1.ProbeMarkerPolicy{when(appsv1alpha1.ProbeSucceeded, "full", "")},
	}
	given := func() *simulation {
		w := newSimulation(t)
		w.pod("ns", "p1").Labels["mine"] = "true"
		w.marker("ns", "m", idle(when(appsv1alpha1.ProbeSucceeded, "idle", "-10"), when(appsv1alpha1.ProbeFailed, "", "10")), full)
		w.settle()
		w.say("ns/p1", "m#idle", appsv1alpha1.ProbeSucceeded, "yes")
		w.say("ns/p1", "m#full", appsv1alpha1.ProbeSucceeded, "yes")
		w.settle()
		w.wants("ns/p1", "True(yes) full=true idle=true mine=true cost=-10")
		if w.marked != 1 {
			t.Errorf("%d writes of the pod", w.marked)
		}
		return w
	}
	for name, tc := range map[string]struct {
		change func(*simulation)
		want   string
	}{
		"a probe":              {func(w *simulation) { w.markers["ns/m"].Spec.Probes = w.markers["ns/m"].Spec.Probes[1:] }, "True(yes) full=true mine=true"},
		"a policy":             {func(w *simulation) { w.markers["ns/m"].Spec.Probes[1].MarkerPolicy = nil }, "True(yes) idle=true mine=true cost=-10"},
		"a key":                {func(w *simulation) { w.markers["ns/m"].Spec.Probes[0].MarkerPolicy[0].Labels = nil }, "True(yes) full=true mine=true cost=-10"},
		"the marker, by force": {func(w *simulation) { delete(w.markers, "ns/m") }, "True(yes) mine=true"},
		"one that another marker has, too": {func(w *simulation) {
			w.marker("ns", "other", full)
			w.markers["ns/m"].Spec.Probes = w.markers["ns/m"].Spec.Probes[:1]
		}, "True(yes) full=true idle=true mine=true cost=-10"},
		"one that somebody has taken off": {func(w *simulation) {
			delete(w.pods["ns/p1"].Labels, "idle")
			w.markers["ns/m"].Spec.Probes = w.markers["ns/m"].Spec.Probes[1:]
		}, "True(yes) full=true mine=true"},
		"of a pod that is over": {func(w *simulation) {
			w.pods["ns/p1"].Status.Phase = corev1.PodSucceeded
			delete(w.markers, "ns/m")
		}, "True(yes) full=true idle=true mine=true cost=-10"},
	} {
		t.Run(name, func(t *testing.T) {
			w := given()
			tc.change(w)
			w.settle()
			w.wants("ns/p1", tc.want)
			if w.marked > 2 {
				t.Errorf("%d writes of the pod", w.marked)
			}
			left := w.pods["ns/p1"].Annotations[appsv1alpha1.AnnotationProbeMarks]
			if tc.want == "True(yes) mine=true" && left != "" || strings.Contains(left, "mine") {
				t.Errorf("the pod says that it has %s from probes", left)
			}
		})
	}
}

func TestMarksThatTwoMarkersKnow(t *testing.T) {
	w := newSimulation(t)
	w.pod("ns", "p")
	other := idle(when("Succeeded", "", "5"))
	other.PodConditionType = "c/other"
	m := w.marker("ns", "a", idle(when("Succeeded", "", "-10")))
	w.marker("ns", "b", other)
	w.settle()
	w.say("ns/p", "a#idle", "Succeeded", "m")
	w.say("ns/p", "b#idle", "Succeeded", "m")
	w.settle()
	w.wants("ns/p", "True(m) cost=5")
	now := metav1.NewTime(w.now)
	m.DeletionTimestamp = &now
	w.settle()
	w.wants("ns/p", "True(m) cost=5")
	if got := w.keys(); got != "ns/p:b#idle" {
		t.Errorf("the list has %q", got)
	}
}

// Of two probes for one condition the first in the order of the markers' names counts.
func TestConditionOfTwoMarkers(t *testing.T) {
	w := newSimulation(t)
	w.pod("ns", "p")
	w.marker("ns", "b", idle())
	w.marker("ns", "a", idle())
	w.settle()
	w.say("ns/p", "b#idle", "Succeeded", "b")
	w.say("ns/p", "a#idle", "Failed", "a")
	w.settle()
	w.wants("ns/p", "False(a)")
}

// large are probes of one marker, as long as admission takes them.
func large(marker string, n int) []appsv1alpha1.PodContainerProbe {
	probes := make([]appsv1alpha1.PodContainerProbe, n)
	for i := range probes {
		p := idle(when("Succeeded", fmt.Sprintf("%s-%d", marker, i), ""))
		p.Name, p.PodConditionType = fmt.Sprintf("p%d", i), fmt.Sprintf("c/%s-%d", marker, i)
		get := &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80)}
		for h := range 16 {
			get.HTTPHeaders = append(get.HTTPHeaders, corev1.HTTPHeader{Name: fmt.Sprintf("X-%d", h), Value: strings.Repeat("x", 1024)})
		}
		p.Probe.ProbeHandler = corev1.ProbeHandler{HTTPGet: get}
		probes[i] = p
	}
	return probes
}

// TestOneNamespaceCannotFillTheList: an excessive namespace's probes are cut, and the others' are asked for.
func TestOneNamespaceCannotFillTheList(t *testing.T) {
	w := newSimulation(t)
	for i := range 3 {
		w.pod("greedy", fmt.Sprintf("p%d", i))
	}
	w.marker("greedy", "m", large("m", 32)...)
	w.settle()
	w.say("greedy/p1", "m#p10", "Succeeded", "")
	w.settle()
	if w.pods["greedy/p1"].Labels["m-10"] != "true" || w.list.Annotations[appsv1alpha1.AnnotationProbesLeftOut] != "greedy" {
		t.Fatalf("labels %v, annotations %v, list %s", w.pods["greedy/p1"].Labels, w.list.Annotations, w.keys())
	}

	// Another namespace wanting as much gets half. Pushed-out probes leave their pods.
	w.pod("late", "p")
	for i := range 3 {
		w.marker("late", fmt.Sprintf("m%d", i), large(fmt.Sprintf("m%d", i), 32)...)
	}
	w.pod("small", "p")
	w.marker("small", "game", idle())
	w.settle()
	count := map[string]int{}
	for _, p := range w.list.Spec.PodProbes {
		count[p.Namespace] += len(p.Probes)
	}
	if count["small"] != 1 || count["late"] != count["greedy"] || count["late"] < 20 {
		t.Errorf("probes %v", count)
	}
	if got := w.list.Annotations[appsv1alpha1.AnnotationProbesLeftOut]; got != "greedy,late" {
		t.Errorf("left out of %s", got)
	}
	if labels := w.pods["greedy/p1"].Labels; labels["m-10"] != "" {
		t.Errorf("the pod is not probed for it any more, and has its label: %v", labels)
	}
	if body, err := json.Marshal(w.list.Spec); err != nil || len(body) > 1<<20 {
		t.Errorf("the list has %d bytes: %v", len(body), err)
	}

	// When there is room again, all is asked for, and nothing is said to be left out.
	delete(w.markers, "greedy/m")
	for i := range 3 {
		w.markers[fmt.Sprintf("late/m%d", i)].Spec.Probes = large(fmt.Sprintf("m%d", i), 10)
	}
	w.settle()
	if _, said := w.list.Annotations[appsv1alpha1.AnnotationProbesLeftOut]; said || len(w.list.Spec.PodProbes) != 2 || len(w.list.Spec.PodProbes[0].Probes) != 30 {
		t.Errorf("annotations %v, list %s", w.list.Annotations, w.keys())
	}
}

// Nine markers with 32 probes each: the schema takes 256 of a pod.
func TestAPodHas256Probes(t *testing.T) {
	w := newSimulation(t)
	w.pod("ns", "p")
	w.pod("other", "p")
	w.marker("other", "game", idle())
	for m := range 9 {
		probes := make([]appsv1alpha1.PodContainerProbe, 32)
		for i := range probes {
			probes[i] = idle()
			probes[i].Name, probes[i].PodConditionType = fmt.Sprintf("p%d", i), fmt.Sprintf("c/%d-%d", m, i)
		}
		w.marker("ns", fmt.Sprintf("m%d", m), probes...)
	}
	w.settle()
	if of := w.list.Spec.PodProbes; len(of) != 2 || len(of[0].Probes) != 256 || w.list.Annotations[appsv1alpha1.AnnotationProbesLeftOut] != "ns" {
		t.Errorf("annotations %v, %d pods, %d probes of the first", w.list.Annotations, len(of), len(of[0].Probes))
	}
	if w.asked != 1 {
		t.Errorf("%d writes of the list", w.asked)
	}
}

func TestPodsThatAreNotProbed(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"not initialized":  func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse },
		"nothing is known": func(p *corev1.Pod) { p.Status.Conditions = nil },
		"failed":           func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"terminating":      func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
		"not selected":     func(p *corev1.Pod) { p.Labels = nil },
	} {
		w := newSimulation(t)
		change(w.pod("ns", "p"))
		w.marker("ns", "game", idle())
		w.settle()
		if w.asked+w.marked > 0 || w.keys() != "" {
			t.Errorf("%s: %q", name, w.keys())
		}
	}
}

func TestAnAddressThatComesLater(t *testing.T) {
	w := newSimulation(t)
	pod := w.pod("ns", "p")
	pod.Status.PodIP = ""
	w.marker("ns", "game", idle())
	w.settle()
	pod.Status.PodIP = "10.0.0.9"
	w.settle()
	if got := w.list.Spec.PodProbes[0].IP; got != "10.0.0.9" || w.asked != 2 {
		t.Errorf("address %q after %d writes", got, w.asked)
	}
}

func TestWithoutItsNode(t *testing.T) {
	w := newSimulation(t)
	w.gone = true
	w.list.Labels = map[string]string{LabelFake: "true"}
	w.list.Spec.PodProbes = []appsv1alpha1.PodProbe{{UID: "x"}}
	w.settle()
	if w.list == nil || len(w.list.Spec.PodProbes) != 1 {
		t.Fatal("the one that is to be kept is not")
	}
	w.list.Labels = nil
	if w.settle(); w.list != nil {
		t.Error("it stays without its node")
	}
}

// OpenKruise's list is taken over with one write, and results are believed.
func TestTakenOver(t *testing.T) {
	w := newSimulation(t)
	w.pod("ns", "p")
	w.marker("ns", "game", idle(when("Succeeded", "good", "-10")))
	w.list.Spec.PodProbes = []appsv1alpha1.PodProbe{{
		Name: "p", Namespace: "ns", UID: "uid-ns-p", IP: "10.0.0.1",
		Probes: []appsv1alpha1.ContainerProbe{{Name: "game#idle", ContainerName: "app", Probe: idle().Probe}, {Name: "game#gone", ContainerName: "app"}, {Name: "odd"}},
	}}
	w.say("ns/p", "game#idle", "Succeeded", "m")
	w.settle()
	w.wants("ns/p", "True(m) good=true cost=-10")
	if got := w.keys(); got != "ns/p:game#idle" || w.asked != 1 || w.marked != 1 {
		t.Errorf("%s after %d writes of the list and %d of the pod", got, w.asked, w.marked)
	}
}

func TestEventsOfRefusedWrites(t *testing.T) {
	w := newSimulation(t)
	w.pod("ns", "p")
	w.marker("ns", "m", idle(when(appsv1alpha1.ProbeSucceeded, "a", "")))
	w.failures = map[planning.Step]planning.Event{}
	w.settle()
	w.say("ns/p", "m#idle", appsv1alpha1.ProbeSucceeded, "")
	w.settle()
	for _, step := range []planning.Step{StepAsk, StepMark} {
		if told := w.failures[step]; told.Reason != "FailedUpdate" || !told.Warning {
			t.Errorf("%s refused: %+v", step, told)
		}
	}
}
