// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
)

// onVirtualNode is a simulation in which pod p0 runs on a virtual node, asks its provider for the probe, carries the mark of a success, and has the
// condition that says so.
func onVirtualNode() *simulation {
	w := newSimulation()
	w.s.Providers = true
	w.marker.Spec.Probes[0].MarkerPolicy = []appsv1alpha1.ProbeMarkerPolicy{
		{State: appsv1alpha1.ProbeSucceeded, Labels: map[string]string{"idle": "yes"}}, {State: appsv1alpha1.ProbeFailed, Annotations: map[string]string{"cost": "10"}},
	}
	w.pod(1).Object.Labels = map[string]string{"idle": "yes"} // of the node that has a daemon
	pod := w.pod(0).Object
	pod.Labels = map[string]string{"app": "game"}
	pod.Annotations, _ = probing.ForProvider(pod, []*probing.Marker{Parse(w.marker).Marker})
	pod.Labels["idle"] = "yes"
	w.s.Nodes[0].Virtual, w.s.Nodes[0].Listed, w.pod(0).Asked, w.pod(0).Results = true, false, nil, nil
	return w
}

func (w *simulation) says(status corev1.ConditionStatus) {
	podstate.Condition(w.pod(0).Object, "game.io/idle").Status = status
}

// TestProvidersOfVirtualNodes is what a marker writes to a pod on a virtual node, and what it says.
func TestProvidersOfVirtualNodes(t *testing.T) {
	silent := func(w *simulation) { w.pod(0).Object.Status.Conditions = w.pod(0).Object.Status.Conditions[:1] }
	for name, tc := range map[string]struct {
		change func(*simulation)
		// body is what is written to p0.
		body, reason, message string
		reconciling, stalled  bool
		recheck               time.Duration
	}{
		"the mark is there": {func(*simulation) {}, "", appsv1alpha1.ReasonProbing, "Every chosen pod", false, false, 0},
		"a success":         {func(w *simulation) { delete(w.pod(0).Object.Labels, "idle") }, `"labels":{"idle":"yes"}`, appsv1alpha1.ReasonMarking, "", true, false, marking},
		"a failure": {func(w *simulation) { w.says(corev1.ConditionFalse) },
			`"labels":{"idle":null},"annotations":{"cost":"10"}`, appsv1alpha1.ReasonMarking, "", true, false, marking},
		"nothing is known any more":            {func(w *simulation) { w.says(corev1.ConditionUnknown) }, `"labels":{"idle":null}`, appsv1alpha1.ReasonMarking, "", true, false, marking},
		"the provider has said nothing yet":    {func(w *simulation) { silent(w); w.s.Since = noon }, "", appsv1alpha1.ReasonWaitingForResults, "no result yet", true, false, 93 * time.Second},
		"the provider says nothing":            {silent, "", appsv1alpha1.ReasonProviderSilent, "conditions of 1 pod (p0)", false, true, 0},
		"created before the marker":            {func(w *simulation) { w.pod(0).Object.Annotations = nil }, "", appsv1alpha1.ReasonVirtualNodes, "1 pod on virtual nodes cannot have all probes of the marker (p0)", false, true, 0},
		"the gate is off":                      {func(w *simulation) { w.s.Providers = false }, "", appsv1alpha1.ReasonVirtualNodes, "EnablePodProbeMarkerOnServerless is off", false, true, 0},
		"a probe without a condition":          {func(w *simulation) { w.marker.Spec.Probes[0].PodConditionType = "" }, "", appsv1alpha1.ReasonProbeNotPossible, "pod p0, probe idle: on virtual nodes it needs", false, true, 0},
		"not chosen any more, with the mark":   {func(w *simulation) { w.leave() }, `"labels":{"idle":null}`, appsv1alpha1.ReasonMarking, "", true, false, marking},
		"not chosen any more, without a mark":  {func(w *simulation) { delete(w.leave().Labels, "idle") }, "", appsv1alpha1.ReasonProbing, "", false, false, 0},
		"being deleted, with a mark on a pod":  {func(w *simulation) { w.leave(); w.delete() }, `"labels":{"idle":null}`, appsv1beta1.ReasonDeleting, "", true, false, marking},
		"being deleted, with no mark any more": {func(w *simulation) { delete(w.leave().Labels, "idle"); w.delete() }, "Release", appsv1beta1.ReasonDeleting, "", true, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := onVirtualNode()
			tc.change(w)
			d, status := w.plan()
			written := ""
			for _, a := range d.Actions {
				written += describe(t, a)
			}
			if (written == "") != (tc.body == "") || !strings.Contains(written, tc.body) {
				t.Errorf("written is %q, want %q", written, tc.body)
			}
			if d.RecheckAfter != tc.recheck {
				t.Errorf("again after %s, want %s", d.RecheckAfter, tc.recheck)
			}
			expect(t, status, tc.reconciling, tc.stalled, tc.reason, tc.message)
		})
	}
}

func (w *simulation) leave() *corev1.Pod {
	pod := w.pod(0).Object
	w.s.Leaving, w.s.Nodes = []*corev1.Pod{pod}, w.s.Nodes[1:]
	return pod
}

func (w *simulation) delete() {
	w.marker.DeletionTimestamp = &metav1.Time{Time: noon}
	w.s.Nodes = nil
}

// describe is a step of the marker itself, or what is sent to a pod.
func describe(t *testing.T, a planning.Action) string {
	t.Helper()
	if a.Step != StepMark {
		return string(a.Step)
	}
	text := ""
	for _, request := range a.Change.Requests(a.Object) {
		body, err := request.Body(planning.Version{})
		if err != nil {
			t.Fatal(err)
		}
		text += request.Subresource + string(body)
	}
	return text
}

// TestARefusedMarkIsTold: nothing moves, and the status says why.
func TestARefusedMarkIsTold(t *testing.T) {
	w := onVirtualNode()
	delete(w.pod(0).Object.Labels, "idle")
	spec := Parse(w.marker)
	d := Plan(spec, w.s)
	if told := d.Actions[0].Failure; told.Reason != "FailedUpdate" || !told.Warning {
		t.Errorf("the event is %+v", told)
	}
	outcome := planning.Outcome{Failures: []planning.Failure{{Step: StepMark, Message: "denied by a policy"}}}
	expect(t, Status(spec, w.s, d, outcome), true, false, appsv1beta1.ReasonRequestFailed, "Results cannot be written to pods: denied")
	outcome.Failures[0].Since = w.s.Now.Add(-30 * time.Second)
	expect(t, Status(spec, w.s, d, outcome), false, true, appsv1beta1.ReasonRequestFailed, "Results cannot be written to pods: denied")
}

// TestADeletionThatHangsSaysWhyAndStalls: a marker that is deleted keeps its finalizer while a mark cannot be taken off a pod, or the finalizer
// cannot be removed. It was never stalled.
func TestADeletionThatHangsSaysWhyAndStalls(t *testing.T) {
	for name, tc := range map[string]struct {
		change   func(*simulation)
		refused  planning.Step
		releases bool
	}{
		"a mark":        {func(w *simulation) { w.leave(); w.delete() }, StepMark, false},
		"the finalizer": {func(w *simulation) { w.delete() }, StepRelease, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := onVirtualNode()
			tc.change(w)
			spec := Parse(w.marker)
			d := Plan(spec, w.s)
			if d.Releases() != tc.releases {
				t.Errorf("releases: %t", d.Releases())
			}
			outcome := planning.Outcome{Failures: []planning.Failure{{Step: tc.refused, Message: "denied by a policy", Since: w.s.Now.Add(-10 * time.Second)}}}
			expect(t, Status(spec, w.s, d, outcome), true, false, appsv1beta1.ReasonRequestFailed, "That is refused: denied by a policy")
			outcome.Failures[0].Since = w.s.Now.Add(-30 * time.Second)
			expect(t, Status(spec, w.s, d, outcome), false, true, appsv1beta1.ReasonRequestFailed, "That is refused: denied by a policy")
		})
	}
}

// Which markers of the namespace share something with this one is the same for all pods: of the others none is asked about each pod.
func TestMarkersThatShareNothingAreNotLookedAtForEachPod(t *testing.T) {
	w := onVirtualNode()
	asked := 0
	for i := range 10 {
		probes := []appsv1alpha1.PodContainerProbe{{Name: "x", PodConditionType: "another/condition"}}
		w.s.Others = append(w.s.Others, &probing.Marker{
			Namespace: "ns", Name: fmt.Sprintf("a%d", i), Selector: counting{labels.Everything(), &asked}, Probes: probes,
		})
	}
	if w.plan(); asked > 0 {
		t.Errorf("selectors of other markers were asked %d times for one pod", asked)
	}
}

// counting counts how often a selector is asked.
type counting struct {
	labels.Selector
	asked *int
}

func (c counting) Matches(l labels.Labels) bool {
	*c.asked++
	return c.Selector.Matches(l)
}
