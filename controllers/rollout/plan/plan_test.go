// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
)

// turn is the controllers once, and time.
func (w *world) turn() {
	w.pass(false)
	w.batch()
	w.wait()
	if w.Net != nil {
		w.Net.sees()
	}
}

// until takes turns until the status is so.
func (w *world) until(t *testing.T, state v1beta1.CanaryStepState, step int32) {
	t.Helper()
	for range 50 {
		if sub := w.sub(); sub != nil && sub.CurrentStepState == state && sub.CurrentStepIndex == step && w.Rollout.Status.Phase == v1beta1.RolloutPhaseProgressing {
			return
		}
		w.turn()
	}
	t.Fatalf("step %d is not %s: %+v", step, state, w.Rollout.Status)
}

// resting is a world whose Rollout has seen its workload.
func resting() *world {
	w := newWorld()
	for range 5 {
		w.turn()
	}
	return w
}

func (w *world) is(t *testing.T, kind string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	i := slices.IndexFunc(w.Rollout.Status.Conditions, func(c v1beta1.RolloutCondition) bool { return c.Type == kind })
	if i < 0 {
		t.Fatalf("there is no condition %s in %+v", kind, w.Rollout.Status)
	}
	if c := w.Rollout.Status.Conditions[i]; c.Status != status || c.Reason != reason {
		t.Errorf("%s is %s, %s", kind, c.Status, c.Reason)
	}
}

// At rest the status is that of a finished release, so that platforms poll one rule.
func TestAtRest(t *testing.T) {
	w := resting()
	s := w.Rollout.Status
	if s.Phase != v1beta1.RolloutPhaseHealthy || s.Message != "rollout is healthy" || s.CurrentStepIndex != 2 || s.CurrentStepState != v1beta1.CanaryStepStateCompleted ||
		s.CanaryStatus.Message != "workload deployment is completed" || s.CanaryStatus.NextStepIndex != -1 || !w.Guarded {
		t.Errorf("got %+v", s)
	}
	before := w.key()
	for range 3 {
		if d := Plan(w.Rollout, w.snapshot()); d.After != 0 || d.Order != nil || len(d.Events) > 0 {
			t.Errorf("at rest: %+v", d)
		}
		w.pass(false)
	}
	if w.key() != before {
		t.Error("something is written at rest")
	}
}

// E1 of the specification, with fewer steps: what a user sees, in order.
func TestARelease(t *testing.T) {
	w := resting()
	w.apply("v2")
	var seen []string
	for range 60 {
		w.turn()
		s := w.Rollout.Status
		text := string(s.Phase) + " " + string(s.CurrentStepState) + ": " + s.Message
		if len(seen) == 0 || seen[len(seen)-1] != text {
			seen = append(seen, text)
		}
		if s.CurrentStepState == v1beta1.CanaryStepStatePaused && w.New == 1 {
			w.approve()
		}
	}
	want := []string{
		"Progressing BeforeStepUpgrade: Rollout is in Progressing",
		"Progressing StepUpgrade: Rollout is in step(1/2), and upgrade workload to new version",
		"Progressing StepPaused: Rollout is in step(1/2), and you need manually confirm to enter the next step",
		"Progressing BeforeStepUpgrade: Rollout is in step(1/2), and you need manually confirm to enter the next step",
		"Progressing StepUpgrade: Rollout is in step(2/2), and upgrade workload to new version",
		"Progressing StepPaused: Rollout is in step(2/2), and upgrade workload to new version",
		"Progressing StepReady: Rollout is in step(2/2), and upgrade workload to new version",
		"Progressing Completed: all steps are done, and the workload goes on by itself",
		"Progressing Completed: Rollout progressing has been completed",
		"Healthy Completed: rollout is healthy",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("a user sees\n%q", seen)
	}
	w.is(t, "Progressing", metav1.ConditionFalse, "Completed")
	w.is(t, "Succeeded", metav1.ConditionTrue, "Completed")
}

// E6: a third version starts at step 1, and the stable revision remains.
func TestAThirdVersion(t *testing.T) {
	w := resting()
	w.apply("v2")
	w.until(t, v1beta1.CanaryStepStatePaused, 1)
	w.apply("v3")
	w.turn()
	if sub := w.sub(); sub.CanaryRevision != "v3" || sub.StableRevision != "v1" || sub.CurrentStepIndex != 1 || sub.CurrentStepState != v1beta1.CanaryStepStateInit {
		t.Errorf("got %+v", sub)
	}
	w.until(t, v1beta1.CanaryStepStatePaused, 1)
	if w.New != 1 {
		t.Errorf("%d pods are new", w.New)
	}
}

func TestATemplateSetBack(t *testing.T) {
	w := resting()
	w.apply("v2")
	w.until(t, v1beta1.CanaryStepStatePaused, 1)
	w.apply("v1")
	w.turn()
	w.is(t, "Progressing", metav1.ConditionTrue, "Cancelling")
	for range 10 {
		w.turn()
	}
	w.is(t, "Succeeded", metav1.ConditionFalse, "Completed")
	if w.Braked || w.InRelease || w.Release != nil || w.Rollout.Status.Phase != v1beta1.RolloutPhaseHealthy {
		t.Errorf("something is left: %s", w.key())
	}
}

// TestATemplateSetBackBeforeAnybodySawIt: a change and its undo while the operator was away leave nothing to confirm step by step.
func TestATemplateSetBackBeforeAnybodySawIt(t *testing.T) {
	w := resting()
	w.apply("v2")
	w.apply("v1")
	w.turn()
	w.is(t, "Progressing", metav1.ConditionTrue, "Cancelling")
	for range 10 {
		w.turn()
	}
	w.is(t, "Progressing", metav1.ConditionFalse, "Completed")
	if s := w.Rollout.Status; s.Phase != v1beta1.RolloutPhaseHealthy || w.InRelease || w.Braked || w.New != w.Replicas {
		t.Errorf("got %+v of %+v", s, w)
	}
	w.apply("v2")
	w.apply("v1")
	w.ID = "next" // pods get it as a label, step by step
	w.until(t, v1beta1.CanaryStepStatePaused, 1)
}

// After a cancel clients see by the same rule that the release is over. What was canceled stays to be seen.
func TestACancelIsSeenToBeOver(t *testing.T) {
	w := resting()
	w.apply("v2")
	w.until(t, v1beta1.CanaryStepStatePaused, 1)
	w.apply("v1")
	w.ID = "back"
	for range 10 {
		w.turn()
	}
	s := w.snapshot()
	s.Workload.Generation = 7
	sub := Plan(w.Rollout, s).Status.CanaryStatus
	if sub.ObservedWorkloadGeneration != 7 || sub.ObservedRolloutID != "back" || sub.CurrentStepState != v1beta1.CanaryStepStateCompleted || sub.CurrentStepIndex != 1 || sub.CanaryRevision != "v2" {
		t.Errorf("got %+v", sub)
	}
}

// The BatchRelease has seen a third version that the Rollout has not: the steps begin again.
func TestATemplateThatCameAndWent(t *testing.T) {
	w := resting()
	w.apply("v2")
	w.until(t, v1beta1.CanaryStepStatePaused, 1)
	w.Release.Status.UpdateRevision = "v3"
	w.pass(false)
	w.is(t, "Progressing", metav1.ConditionTrue, "Initializing")
	if sub := w.sub(); sub.CanaryRevision != "v2" || sub.StableRevision != "v1" {
		t.Errorf("got %+v", sub)
	}
	w.until(t, v1beta1.CanaryStepStatePaused, 1)
}

// Another rollout-id alone: the release goes on with it, at its step. After the last step it is the next release.
func TestAnotherRolloutIDInARelease(t *testing.T) {
	w := resting()
	w.ID = "7"
	w.apply("v2")
	w.until(t, v1beta1.CanaryStepStatePaused, 1)
	w.act("id")
	w.turn()
	if sub := w.sub(); sub.ObservedRolloutID != "id" || sub.CurrentStepIndex != 1 || sub.CurrentStepState != v1beta1.CanaryStepStatePaused || w.Labels != "id" || w.New != 1 {
		t.Errorf("got %+v, pods with %q", sub, w.Labels)
	}
	w.approve()
	w.until(t, v1beta1.CanaryStepStateCompleted, 2)
	w.ID = "8"
	w.until(t, v1beta1.CanaryStepStatePaused, 1)
	if sub := w.sub(); sub.ObservedRolloutID != "8" || sub.CurrentStepIndex != 1 || w.Labels != "8" {
		t.Errorf("got %+v, pods with %q", sub, w.Labels)
	}
}

func TestPauses(t *testing.T) {
	for name, tc := range map[string]struct {
		pause   *int32
		since   time.Duration
		goes    bool
		message string
		after   time.Duration
	}{
		"for somebody":   {since: time.Hour, message: "Rollout is in step(1/2), and you need manually confirm to enter the next step"},
		"not at all":     {pause: ptr.To[int32](0), goes: true, message: "Rollout is in step(1/2), and wait duration(0 seconds) to enter the next step"},
		"for a minute":   {pause: ptr.To[int32](60), since: 20 * time.Second, message: "Rollout is in step(1/2), and wait duration(60 seconds) to enter the next step", after: 40 * time.Second},
		"for long after": {pause: ptr.To[int32](60), since: time.Minute, goes: true, message: "Rollout is in step(1/2), and wait duration(60 seconds) to enter the next step"},
	} {
		t.Run(name, func(t *testing.T) {
			w := resting()
			w.Rollout.Spec.Strategy.Canary.Steps[0].Pause.Duration = tc.pause
			w.apply("v2")
			w.until(t, v1beta1.CanaryStepStatePaused, 1)
			w.sub().LastUpdateTime = &metav1.Time{Time: now.Add(-tc.since)}
			d := Plan(w.Rollout, w.snapshot())
			if goes := d.Status.CurrentStepState == v1beta1.CanaryStepStateReady; goes != tc.goes || d.Status.Message != tc.message || d.After != tc.after {
				t.Errorf("got %s, %s, %s", d.Status.CurrentStepState, d.Status.Message, d.After)
			}
		})
	}
}

// The last step goes on by itself when it updates everything, whatever its form.
func TestTheLastStep(t *testing.T) {
	for text, goes := range map[string]bool{"100%": true, "3": true, "2": false} {
		w := resting()
		size := intstr.Parse(text)
		w.Rollout.Spec.Strategy.Canary.Steps[1].Replicas = &size
		w.apply("v2")
		w.until(t, v1beta1.CanaryStepStatePaused, 1)
		w.approve()
		w.until(t, v1beta1.CanaryStepStatePaused, 2)
		w.turn()
		if gone := w.sub().CurrentStepState != v1beta1.CanaryStepStatePaused; gone != goes {
			t.Errorf("a last step of %s goes on by itself: %t", text, gone)
		}
	}
}

func TestAPausedRollout(t *testing.T) {
	w := resting()
	w.apply("v2")
	w.until(t, v1beta1.CanaryStepStatePaused, 1)
	w.Rollout.Spec.Strategy.Paused = true
	w.approve()
	for range 5 {
		w.turn()
	}
	w.is(t, "Progressing", metav1.ConditionTrue, "Paused")
	if w.sub().CurrentStepIndex != 1 || w.Rollout.Status.Message != "Rollout has been paused, you can resume it by kube-cli" {
		t.Errorf("got %+v", w.Rollout.Status)
	}
	w.Rollout.Spec.Strategy.Paused = false
	w.turn()
	w.is(t, "Progressing", metav1.ConditionTrue, "InRolling")
}

func TestJumps(t *testing.T) {
	for to, want := range map[int32]int32{2: 1, 1: 1, 7: 1, 0: 1, -3: 1} {
		w := resting()
		w.apply("v2")
		w.until(t, v1beta1.CanaryStepStatePaused, 1)
		w.sub().NextStepIndex = to
		w.pass(false)
		if got := w.sub(); got.CurrentStepIndex != want || got.NextStepIndex != 2 {
			t.Errorf("from step 1 to %d: step %d, next %d", to, got.CurrentStepIndex, got.NextStepIndex)
		}
	}
}

// A changed plan keeps the step that allows as many pods as before, else it finds the first that allows at least as many.
func TestAChangedPlan(t *testing.T) {
	for name, tc := range map[string]struct {
		steps []string
		want  int32
		state v1beta1.CanaryStepState
	}{
		"the same size":     {steps: []string{"1", "2"}, want: 1, state: v1beta1.CanaryStepStatePaused},
		"a larger first":    {steps: []string{"2", "3"}, want: 1, state: v1beta1.CanaryStepStateInit},
		"a percentage":      {steps: []string{"33%", "100%"}, want: 1, state: v1beta1.CanaryStepStatePaused},
		"everything is new": {steps: []string{"100%", "100%"}, want: 1, state: v1beta1.CanaryStepStateInit},
		"another step":      {steps: []string{"1", "2", "3"}, want: 1, state: v1beta1.CanaryStepStatePaused},
		"one step":          {steps: []string{"3"}, want: 1, state: v1beta1.CanaryStepStateInit},
	} {
		t.Run(name, func(t *testing.T) {
			w := resting()
			w.apply("v2")
			w.until(t, v1beta1.CanaryStepStatePaused, 1)
			var steps []v1beta1.CanaryStep
			for _, text := range tc.steps {
				size := intstr.Parse(text)
				steps = append(steps, v1beta1.CanaryStep{Replicas: &size})
			}
			w.Rollout.Spec.Strategy.Canary.Steps = steps
			w.pass(false)
			if sub := w.sub(); sub.CurrentStepIndex != tc.want || sub.CurrentStepState != tc.state || sub.RolloutHash != Hash(w.Rollout) || sub.NextStepIndex != next(tc.want, len(steps)) {
				t.Errorf("got %+v", sub)
			}
			if wrong := w.end(); wrong != "" {
				t.Error(wrong)
			}
		})
	}
}

// next is the number of the step after another one.
func next(step int32, of int) int32 {
	if int(step) == of {
		return -1
	}
	return step + 1
}

// A plan that lost the present step goes on at its last one.
func TestAPlanWithoutThePresentStep(t *testing.T) {
	w := resting()
	size := intstr.FromInt32(2)
	w.Rollout.Spec.Strategy.Canary.Steps[1].Replicas = &size
	w.apply("v2")
	w.until(t, v1beta1.CanaryStepStatePaused, 1)
	w.approve()
	w.until(t, v1beta1.CanaryStepStatePaused, 2)
	w.Rollout.Spec.Strategy.Canary.Steps = w.Rollout.Spec.Strategy.Canary.Steps[:1]
	w.pass(false)
	if sub := w.sub(); sub.CurrentStepIndex != 1 || sub.NextStepIndex != -1 {
		t.Errorf("got %+v", sub)
	}
	if wrong := w.end(); wrong != "" {
		t.Error(wrong)
	}
}

// An approval counts although the BatchRelease has not seen the changed plan yet. One for a larger step does not.
func TestAnApprovalAfterAChangedPlan(t *testing.T) {
	for size, want := range map[int32]int32{1: 2, 2: 1} {
		w := resting()
		w.apply("v2")
		w.until(t, v1beta1.CanaryStepStatePaused, 1)
		first, second := intstr.FromInt32(size), intstr.FromInt32(2)
		w.Rollout.Spec.Strategy.Canary.Steps[0].Replicas, w.Rollout.Spec.Strategy.Canary.Steps[1].Replicas = &first, &second
		w.pass(false)
		w.pass(false)
		w.sub().CurrentStepState = v1beta1.CanaryStepStateReady
		w.pass(false)
		if got := w.sub().CurrentStepIndex; got != want {
			t.Errorf("with %d pods in step 1: step %d after the approval", size, got)
		}
	}
}

func TestTheHashIgnoresPauses(t *testing.T) {
	w := newWorld()
	before := Hash(w.Rollout)
	threshold := intstr.FromInt32(1)
	canary := w.Rollout.Spec.Strategy.Canary
	canary.Steps[0].Pause.Duration, canary.FailureThreshold, canary.Steps[0].ProgressDeadlineSeconds = ptr.To[int32](5), &threshold, ptr.To[int32](5)
	if Hash(w.Rollout) != before {
		t.Error("a pause is another plan")
	}
	canary.Steps[0].Replicas = &threshold
	canary.Steps[1].Replicas = &threshold
	if Hash(w.Rollout) == before {
		t.Error("other sizes are the same plan")
	}
}

// Q15: a change of replicas leaves the step and its state alone.
func TestScalingAWaitingRelease(t *testing.T) {
	w := resting()
	w.apply("v2")
	w.until(t, v1beta1.CanaryStepStatePaused, 1)
	for _, replicas := range []int{6, 3} {
		w.Replicas = replicas
		for range 4 {
			w.turn()
		}
		if sub := w.sub(); sub.CurrentStepIndex != 1 || sub.CurrentStepState != v1beta1.CanaryStepStatePaused {
			t.Errorf("with %d replicas: %+v", replicas, sub)
		}
	}
}

func TestAWorkloadThatGoes(t *testing.T) {
	w := resting()
	w.apply("v2")
	w.until(t, v1beta1.CanaryStepStatePaused, 1)
	w.Missing = true
	for range 3 {
		w.turn()
	}
	if s := w.Rollout.Status; s.Phase != v1beta1.RolloutPhaseInitial || s.Message != "Workload Not Found" || s.CanaryStatus != nil || w.Release != nil {
		t.Errorf("got %+v", s)
	}
}

func TestWhoTakesOver(t *testing.T) {
	w := resting()
	w.apply("v2")
	w.until(t, v1beta1.CanaryStepStatePaused, 1)
	w.Guarded = false
	for range 6 {
		w.turn()
	}
	w.is(t, "Succeeded", metav1.ConditionFalse, "TakenOver")
	if w.Rollout.Status.Phase != v1beta1.RolloutPhaseHealthy || !w.Guarded || w.Release != nil {
		t.Errorf("got %s", w.key())
	}
}

// Somebody takes the label away while a change is held that no pass has seen.
func TestWhoTakesAHeldChange(t *testing.T) {
	w := resting()
	w.apply("v2")
	w.Guarded = false
	w.turn()
	w.is(t, "Succeeded", metav1.ConditionFalse, "TakenOver")
	if w.Guarded || w.InRelease {
		t.Errorf("got %s", w.key())
	}
	w.turn()
	if w.Rollout.Status.Phase != v1beta1.RolloutPhaseHealthy || !w.Guarded || w.Release != nil {
		t.Errorf("got %s", w.key())
	}
}

func TestTheOrder(t *testing.T) {
	w := resting()
	w.Rollout.Spec.Strategy.Canary.EnableExtraWorkloadForCanary = true
	w.apply("v2")
	w.until(t, v1beta1.CanaryStepStatePaused, 1)
	plan := w.Release.Spec.ReleasePlan
	if plan.RollingStyle != v1beta1.CanaryRollingStyle || *plan.BatchPartition != 0 || len(plan.Batches) != 2 || w.Release.Spec.WorkloadRef != w.Rollout.Spec.WorkloadRef {
		t.Errorf("got %+v", plan)
	}
}

// New pods of the workload itself say nothing about the step of a canary Deployment.
func TestACanaryDeploymentBeginsAtTheFirstStep(t *testing.T) {
	for extra, want := range map[bool]int32{false: 2, true: 1} {
		p := &pass{rollout: newWorld().Rollout, Snapshot: newWorld().snapshot()}
		p.rollout.Spec.Strategy.Canary.EnableExtraWorkloadForCanary = extra
		p.Workload.Revision, p.Workload.Updated = "v2", 2
		if got := p.reached(); got != want {
			t.Errorf("extra %t: step %d, want %d", extra, got, want)
		}
	}
}

// One without steps, which admission refuses, can be deleted all the same.
func TestAStoredBlueGreenRollout(t *testing.T) {
	w := resting()
	w.apply("v2")
	w.until(t, v1beta1.CanaryStepStatePaused, 1)
	w.Rollout.Spec.Strategy = v1beta1.RolloutStrategy{BlueGreen: &v1beta1.BlueGreenStrategy{}}
	Unify(w.Rollout)
	for range 6 {
		w.turn()
	}
	w.Rollout.DeletionTimestamp = &metav1.Time{Time: now}
	for range 20 {
		w.turn()
	}
	if w.Rollout != nil || w.Release != nil || w.Braked {
		t.Errorf("got %s", w.key())
	}
}
