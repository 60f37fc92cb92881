// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
)

// restingRouted is a world with traffic whose Rollout has seen its workload.
func restingRouted() *world {
	w := newRouted()
	for range 5 {
		w.turn()
	}
	return w
}

// What the cursor wants of requests, by the state of the step.
func TestWanted(t *testing.T) {
	const none = traffic.Goal(-1)
	for name, tc := range map[string]struct {
		change func(*v1beta1.Rollout, *Workload)
		want   traffic.Goal
	}{
		"before a step":      {func(*v1beta1.Rollout, *Workload) {}, traffic.Prepare},
		"before one without": {func(r *v1beta1.Rollout, _ *Workload) { r.Status.CanaryStatus.CurrentStepIndex = 2 }, traffic.Open},
		"while pods come":    {inState(v1beta1.CanaryStepStateUpgrade), none},
		"after them":         {inState(v1beta1.CanaryStepStateTrafficRouting), traffic.Route},
		"between":            {inState(v1beta1.CanaryStepStateMetricsAnalysis), none},
		"for a person":       {inState(v1beta1.CanaryStepStatePaused), none},
		"paused":             {reasoned(v1beta1.ReasonPaused), none},
		"at first":           {reasoned(v1beta1.ReasonInitializing), none},
		"at rest":            {func(r *v1beta1.Rollout, _ *Workload) { r.Status.Phase = v1beta1.RolloutPhaseHealthy }, none},
		"opening":            {ends(v1beta1.FinalisingStepRestoreStableService), traffic.Restore},
		"going back":         {ends(v1beta1.FinalisingStepRouteTrafficToStable), traffic.Return},
		"clearing up":        {ends(v1beta1.FinalisingStepRemoveCanaryService), traffic.Remove},
		"while pods go": {func(r *v1beta1.Rollout, w *Workload) {
			ends(v1beta1.FinalisingStepResumeWorkload)(r, w)
			reasoned(v1beta1.ReasonFinalising)(r, w)
		}, none},
		"without trafficRouting": {func(r *v1beta1.Rollout, _ *Workload) { r.Spec.Strategy.Canary.TrafficRoutings = nil }, none},
	} {
		t.Run(name, func(t *testing.T) {
			w := restingRouted()
			w.apply("v2")
			w.until(t, v1beta1.CanaryStepStateInit, 1)
			reasoned(v1beta1.ReasonInRolling)(w.Rollout, nil)
			stored := w.snapshot().Workload
			tc.change(w.Rollout, stored)
			got := none
			if want := Wanted(w.Rollout, stored, nil); want != nil {
				got = want.Goal
			}
			if got != tc.want {
				t.Errorf("got goal %d, want %d", got, tc.want)
			}
		})
	}
}

func inState(state v1beta1.CanaryStepState) func(*v1beta1.Rollout, *Workload) {
	return func(r *v1beta1.Rollout, _ *Workload) { r.Status.CanaryStatus.CurrentStepState = state }
}

func ends(step v1beta1.FinalisingStep) func(*v1beta1.Rollout, *Workload) {
	return func(r *v1beta1.Rollout, _ *Workload) { r.Status.CanaryStatus.FinalisingStep = step }
}

func reasoned(reason string) func(*v1beta1.Rollout, *Workload) {
	return func(r *v1beta1.Rollout, _ *Workload) {
		p := &pass{rollout: r, Snapshot: Snapshot{Now: now}}
		p.Status = r.Status
		p.condition(v1beta1.RolloutConditionProgressing, metav1.ConditionTrue, reason, "")
		r.Status = p.Status
	}
}

// E3 and E5 of the specification: what is done about requests, in order, with the states of steps and of ending.
func TestTheOrderWithRequests(t *testing.T) {
	up := "BeforeStepUpgrade PinStable StepUpgrade StepTrafficRouting MakeCanary SetRoutes StepMetricsAnalysis StepPaused"
	for name, tc := range map[string]struct {
		then func(*world)
		want string
	}{
		"success": {(*world).approve, "StepReady BeforeStepUpgrade OpenStable EndRoutes DisownRoutes DropCanary StepUpgrade StepPaused StepReady " +
			"RestoreStableService RouteTrafficToStable RemoveCanaryService ResumeWorkload ReleaseWorkloadControl END"},
		"rollback": {func(w *world) { w.apply("v1") }, "RouteTrafficToStable EndRoutes DisownRoutes ResumeWorkload ReleaseWorkloadControl RestoreStableService OpenStable RemoveCanaryService DropCanary END"},
		"disable": {func(w *world) { w.Rollout.Spec.Disabled = true }, "RestoreStableService OpenStable RouteTrafficToStable EndRoutes DisownRoutes RemoveCanaryService DropCanary " +
			"ResumeWorkload ReleaseWorkloadControl END"},
		"taken over":         {func(w *world) { w.act("take") }, "RestoreStableService OpenStable RouteTrafficToStable EndRoutes DisownRoutes RemoveCanaryService DropCanary END"},
		"without a workload": {func(w *world) { w.act("remove") }, "RestoreStableService OpenStable RouteTrafficToStable EndRoutes DisownRoutes RemoveCanaryService DropCanary END"},
		"another version": {func(w *world) { w.apply("v3") }, "RouteTrafficToStable BeforeStepUpgrade EndRoutes DisownRoutes ReleaseWorkloadControl RemoveCanaryService DropCanary " +
			"StepUpgrade StepTrafficRouting MakeCanary SetRoutes StepMetricsAnalysis StepPaused"},
	} {
		t.Run(name, func(t *testing.T) {
			w := restingRouted()
			w.apply("v2")
			if got := w.story(false); got != up {
				t.Fatalf("the first step is\n%s", got)
			}
			tc.then(w)
			if got := w.story(true); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

// story takes turns until a person is waited for, or nothing changes: acts, states and steps of ending.
func (w *world) story(begun bool) string {
	var all []string
	add := func(word string) {
		if word != "" && (len(all) == 0 || all[len(all)-1] != word) {
			all = append(all, word)
		}
	}
	state, ending := "", ""
	if begun {
		state, ending = string(w.sub().CurrentStepState), string(w.sub().FinalisingStep)
	}
	if state == "StepReady" {
		add(state)
	}
	for range 80 {
		d := Plan(w.Rollout, w.snapshot())
		add(string(d.Act))
		w.turn()
		sub := w.sub()
		if sub == nil || w.Rollout.Status.Phase == v1beta1.RolloutPhaseHealthy {
			break
		}
		if now := string(sub.FinalisingStep); now != ending {
			ending = now
			add(now)
		}
		if now := string(sub.CurrentStepState); now != state && now != "Completed" {
			state = now
			add(now)
		}
	}
	return strings.Join(all, " ")
}

// A user is told once per step, and what holds requests up is in the condition.
func TestWhatIsSaidOfRequests(t *testing.T) {
	w := restingRouted()
	w.apply("v2")
	w.until(t, v1beta1.CanaryStepStateTrafficRouting, 1)
	var notes []string
	for range 20 {
		w.Net.Refusing = len(notes) == 0 && w.Net.Route == 20 && w.Rollout.Status.Conditions != nil && !slices.ContainsFunc(w.Rollout.Status.Conditions, func(c v1beta1.RolloutCondition) bool {
			return c.Reason == v1beta1.ReasonNotRouted
		})
		for _, e := range Plan(w.Rollout, w.snapshot()).Events {
			notes = append(notes, e.Message)
		}
		w.turn()
	}
	if got := strings.Join(notes, "; "); got != "route: ; traffic of step(1) is 20%" {
		t.Errorf("got %q", got)
	}
}

// A jump to a step with as many pods changes only requests.
func TestAJumpWithRequests(t *testing.T) {
	w := restingRouted()
	same := w.Rollout.Spec.Strategy.Canary.Steps[0]
	same.Traffic = ptr.To("50%")
	w.Rollout.Spec.Strategy.Canary.Steps = slices.Insert(w.Rollout.Spec.Strategy.Canary.Steps, 1, same)
	two := intstr.FromInt32(2)
	w.Rollout.Spec.Strategy.Canary.Steps[2].Replicas = &two
	w.apply("v2")
	w.until(t, v1beta1.CanaryStepStatePaused, 1)
	for step, state := range map[int32]v1beta1.CanaryStepState{2: v1beta1.CanaryStepStateTrafficRouting, 3: v1beta1.CanaryStepStateInit} {
		c := w.copy()
		c.sub().NextStepIndex = step
		if step == 2 { // the usual one
			c.sub().NextStepIndex, c.sub().CurrentStepIndex = 2, 3
		}
		if c.pass(false); c.sub().CurrentStepIndex != step || c.sub().CurrentStepState != state {
			t.Errorf("step %d is %s", c.sub().CurrentStepIndex, c.sub().CurrentStepState)
		}
	}
}

// An approval that comes before its step waits is ignored.
func TestAnEarlyApproval(t *testing.T) {
	for _, state := range []v1beta1.CanaryStepState{v1beta1.CanaryStepStateInit, v1beta1.CanaryStepStateUpgrade, v1beta1.CanaryStepStateTrafficRouting} {
		for _, paused := range []bool{false, true} {
			w := restingRouted()
			w.apply("v2")
			w.until(t, state, 1)
			w.Rollout.Spec.Strategy.Paused = paused
			w.sub().CurrentStepState = v1beta1.CanaryStepStateReady
			w.pass(false)
			if w.sub().CurrentStepIndex != 1 || w.sub().CurrentStepState == v1beta1.CanaryStepStateReady {
				t.Errorf("%s: step %d is %s", state, w.sub().CurrentStepIndex, w.sub().CurrentStepState)
			}
		}
	}
}

// A gateway that never sees a route is named when the deadline of the step is over.
func TestTheDeadlineOfAGateway(t *testing.T) {
	w := restingRouted()
	w.Rollout.Spec.Strategy.Canary.Steps[0].ProgressDeadlineSeconds = ptr.To[int32](10)
	w.apply("v2")
	w.until(t, v1beta1.CanaryStepStateTrafficRouting, 1)
	w.Net.Dead = true
	for range 10 {
		w.pass(false)
		w.wait()
	}
	w.is(t, v1beta1.RolloutConditionStalled, metav1.ConditionFalse, v1beta1.ReasonInRolling)
	for i := range w.Rollout.Status.Conditions {
		w.Rollout.Status.Conditions[i].LastUpdateTime = metav1.NewTime(now.Add(-11 * time.Second))
	}
	w.pass(false)
	w.is(t, v1beta1.RolloutConditionStalled, metav1.ConditionTrue, v1beta1.ReasonDeadlineExceeded)
	const want = "in step(1/2) requests are not routed yet, and nothing changed that within 10 seconds: route: "
	if got := ConditionOf(&w.Rollout.Status, v1beta1.RolloutConditionStalled).Message; got != want {
		t.Errorf("it says %q", got)
	}
	w.Net.Dead = false
	w.Net.sees()
	w.pass(false)
	if c := ConditionOf(&w.Rollout.Status, v1beta1.RolloutConditionStalled); c.Type != "" {
		t.Errorf("it is still %+v", c)
	}
}

// Another weight in the plan is routed at once.
func TestAnotherWeight(t *testing.T) {
	w := restingRouted()
	w.apply("v2")
	for range 30 {
		w.turn()
	}
	if w.sub().CurrentStepState != v1beta1.CanaryStepStatePaused {
		t.Fatalf("it is %s", w.sub().CurrentStepState)
	}
	w.Rollout.Spec.Strategy.Canary.Steps[0].Traffic = ptr.To("40%")
	w.pass(false)
	if w.sub().CurrentStepState != v1beta1.CanaryStepStateTrafficRouting {
		t.Errorf("it is %s", w.sub().CurrentStepState)
	}
}
