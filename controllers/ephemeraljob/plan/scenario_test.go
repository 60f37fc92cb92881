// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// Whole jobs, from the first container to the end.

func TestParallelismAndTimeToLive(t *testing.T) {
	w := newSimulation(t, 4, parallelism(2))
	w.at(0)
	w.expectServed("p0 p1")
	w.at(0)
	w.expect(appsv1beta1.EphemeralJobWaiting, 4, 0, 2, 0, 0)
	w.run("p0", "p1")
	w.at(1)
	w.expect(appsv1beta1.EphemeralJobRunning, 4, 2, 0, 0, 0)
	w.exit(0, "p0")
	w.at(10)
	w.expectServed("p0 p1 p2")
	w.run("p2")
	w.exit(0, "p1")
	w.at(11) // the tail goes at the same pace
	w.expectServed("p0 p1 p2 p3")
	w.exit(0, "p2", "p3")
	w.at(20)
	w.expect(appsv1beta1.EphemeralJobSucceeded, 4, 0, 0, 4, 0)
	w.expectCondition("JobSucceeded", "JobSucceeded", "4 of 4 targets succeeded")
	w.expectCondition("Stalled", "")
	w.at(20 + 1799)
	if w.gone {
		t.Error("the job is gone before its time")
	}
	if got := w.decision.RecheckAfter; got != time.Second {
		t.Errorf("looked at again after %v, want 1s", got)
	}
	w.at(20 + 1800)
	if !w.gone {
		t.Error("the job is not deleted half an hour after its end")
	}
	w.golden()
}

// On a silent node, added containers are never reported: the job said for ever they are at work, and named no pods.
func TestPodsWhoseContainersDoNotStartAreNamed(t *testing.T) {
	w := newSimulation(t, 3, parallelism(2))
	w.at(0)
	w.run("p0")
	w.at(1)
	w.expectCondition("Reconciling", "RunningPods", "not started yet: pod p1")
	w.run("p1")
	w.at(2)
	if _, message := w.condition("Reconciling"); strings.Contains(message, "not started") {
		t.Errorf("when it runs: %q", message)
	}
}

func TestSubset(t *testing.T) {
	w := newSimulation(t, 10, replicas(3), parallelism(10))
	w.at(0)
	w.expectServed("p0 p1 p2")
	w.exit(0, "p0", "p1", "p2")
	w.at(1)
	w.expect(appsv1beta1.EphemeralJobSucceeded, 3, 0, 0, 3, 0)
}

func TestConflict(t *testing.T) {
	w := newSimulation(t, 3)
	w.changePod("p1", func(pod *corev1.Pod) { pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{ephemeral("dbg")} })
	for second, pod := range []string{"p0", "p2"} {
		w.at(second)
		w.exit(0, pod)
	}
	w.at(3)
	w.expect(appsv1beta1.EphemeralJobSucceeded, 2, 0, 0, 2, 0)
	if env := w.pods["p1"].Spec.EphemeralContainers[0].Env; len(env) > 0 {
		t.Errorf("the container of another has got %v", env)
	}
}

func TestFailureMix(t *testing.T) {
	w := newSimulation(t, 3, parallelism(3))
	w.at(0)
	w.exit(0, "p0", "p1")
	w.exit(1, "p2")
	w.at(1)
	w.expect(appsv1beta1.EphemeralJobFailed, 3, 0, 0, 2, 1)
	w.expectCondition("JobFailed", "JobFailed", "2 of 3 targets succeeded, 1 failed", "pod p2: container dbg ended with exit code 1")
	w.expectCondition("Stalled", "JobFailed")
	w.golden()
}

func TestPause(t *testing.T) {
	w := newSimulation(t, 5)
	for second := range 2 {
		w.at(second)
		w.exit(0, fmt.Sprintf("p%d", second))
	}
	w.at(2)
	w.run("p2")
	w.changeJob(func(job *appsv1beta1.EphemeralJob) { job.Spec.Paused = true })
	w.at(3)
	w.expect(appsv1beta1.EphemeralJobPaused, 5, 1, 0, 2, 0)
	w.expectCondition("Reconciling", "Paused", "at work in 1 pod")
	w.exit(0, "p2")
	w.at(4)
	w.expect(appsv1beta1.EphemeralJobPaused, 5, 0, 0, 3, 0)
	w.expectServed("p0 p1 p2")
	w.changeJob(func(job *appsv1beta1.EphemeralJob) { job.Spec.Paused = false })
	w.at(5)
	w.expectServed("p0 p1 p2 p3")
	w.golden()
}

func TestBadImage(t *testing.T) {
	w := newSimulation(t, 3, deadline(60))
	w.at(0)
	w.reports("dbg", waits("ImagePullBackOff"), "p0")
	w.at(1)
	w.at(30)
	w.expectServed("p0")
	w.expect(appsv1beta1.EphemeralJobWaiting, 3, 0, 1, 0, 0)
	w.expectCondition("Stalled", "ContainersWait", "pod p0: container dbg waits: ImagePullBackOff: said the kubelet")
	w.at(60)
	w.expect(appsv1beta1.EphemeralJobFailed, 3, 0, 0, 0, 3)
	w.expectCondition("JobFailed", "DeadlineExceeded", "ImagePullBackOff")
	w.golden()
}

// A job ended by its deadline said for ever its containers run.
func TestAJobThatItsDeadlineEndedLeavesNoPodUnfinished(t *testing.T) {
	w := newSimulation(t, 2, parallelism(2), deadline(60))
	w.at(0)
	w.run("p0", "p1")
	w.at(59)
	if got := w.decision.RecheckAfter; got != time.Second {
		t.Errorf("looked at again after %v, want 1s", got)
	}
	w.at(60)
	w.expect(appsv1beta1.EphemeralJobFailed, 2, 0, 0, 0, 2)
	w.expectCondition("JobFailed", "DeadlineExceeded", "containers in 2 pods go on")
	w.exit(0, "p0", "p1")
	w.at(61)
	w.expect(appsv1beta1.EphemeralJobFailed, 2, 0, 0, 0, 2)
	w.expectCondition("Stalled", "DeadlineExceeded")
}

func TestReplacement(t *testing.T) {
	w := newSimulation(t, 2, replicas(2))
	w.at(0)
	w.exit(0, "p0")
	w.at(1)
	w.run("p1")
	delete(w.pods, "p0")
	w.join(corev1.PodRunning)
	w.at(2)
	w.expect(appsv1beta1.EphemeralJobRunning, 2, 1, 0, 0, 0)
	w.exit(0, "p1")
	w.at(3)
	w.expectServed("p1 p2")
	w.golden()
}

// Other cases of users.

func TestRefusedPodsDoNotHoldUpOthers(t *testing.T) {
	w := newSimulation(t, 3, refusing("p0"))
	w.at(0)
	w.expectCondition("Reconciling", "RequestFailed", "pod p0", "forbidden by policy")
	w.expectCondition("CreateFailed", "RequestFailed")
	w.at(1)
	w.expectServed("p1")
	w.exit(0, "p1")
	w.at(2)
	w.exit(0, "p2")
	w.at(3)
	w.at(4)
	w.expect(appsv1beta1.EphemeralJobRunning, 3, 0, 0, 2, 0)
	w.at(5)
	w.expect(appsv1beta1.EphemeralJobFailed, 3, 0, 0, 2, 1)
	w.expectCondition("JobFailed", "JobFailed", "pod p0: refused: forbidden by policy")
	w.golden()
}

// The first refused request stalled a job, though the next try often succeeds. Other kinds wait for half a minute.
func TestTheFirstRefusedRequestDoesNotStallAJob(t *testing.T) {
	spec, s := newSimulation(t, 1).snapshot()
	d := Plan(spec, s)
	for _, step := range []planning.Step{StepAdd, planning.StepDeleteJob, StepReleaseJob} {
		outcome := planning.Outcome{Failures: []planning.Failure{{Step: step, Slot: "p0", Refused: true, Message: "forbidden by policy", Since: s.Now}}}
		job := *spec
		job.Job = spec.Job.DeepCopy()
		for _, stalled := range []bool{false, true} {
			job.Job.Status = Status(&job, s, d, outcome)
			var said bool
			for _, c := range job.Job.Status.Conditions {
				if c.Type == appsv1beta1.EphemeralJobStalled {
					said = c.Status == corev1.ConditionTrue
				}
				if c.Type == "Reconciling" && (c.Reason != appsv1beta1.ReasonRequestFailed || !strings.Contains(c.Message, "forbidden by policy")) {
					t.Errorf("%s: it says %+v", step, c)
				}
			}
			if said != stalled {
				t.Errorf("%s, %s after the first try: stalled is %t", step, s.Now.Sub(outcome.Failures[0].Since), said)
			}
			s.Now = s.Now.Add(30 * time.Second)
		}
	}
}

func TestRefusalsAreForgottenWithTheirPod(t *testing.T) {
	w := newSimulation(t, 1, refusing("p0"))
	w.at(0)
	w.at(1)
	if w.refused["uid-p0"].Tries != 2 {
		t.Errorf("remembered is %v", w.refused)
	}
	delete(w.pods, "p0")
	w.at(2)
	if len(w.refused) != 0 {
		t.Errorf("remembered is %v", w.refused)
	}
}

func TestOthersHaveTheirTurnSoonAfterARefusal(t *testing.T) {
	w := newSimulation(t, 2, refusing("p0"))
	spec, s := w.snapshot()
	d := Plan(spec, s)
	refused := planning.Outcome{Failures: []planning.Failure{{Step: StepAdd, Slot: "p0", Refused: true}}}
	if got := NextAfter(d, refused); got != storedSoon {
		t.Errorf("after %v, want %v", got, storedSoon)
	}
	for name, outcome := range map[string]planning.Outcome{
		"none was": {}, "it waits for its next try": {Failures: []planning.Failure{{Step: StepAdd, Slot: "p0"}}},
	} {
		if got := NextAfter(d, outcome); got != 0 {
			t.Errorf("%s: after %v, want not at all", name, got)
		}
	}
	delete(w.pods, "p1")
	spec, s = w.snapshot()
	if got := NextAfter(Plan(spec, s), refused); got != 0 {
		t.Errorf("without others: after %v, want not at all", got)
	}
}

func TestPodsThatRunComeFirst(t *testing.T) {
	w := newSimulation(t, 0, replicas(2))
	w.join(corev1.PodPending)
	w.join(corev1.PodPending)
	w.changePod("p1", func(pod *corev1.Pod) { pod.Spec.NodeName = "" })
	w.join(corev1.PodRunning)
	w.at(0)
	w.expectServed("p2")
	w.exit(0, "p2")
	w.at(1)
	w.expectServed("p0 p2") // it waits for an init container, perhaps: that is what one looks at
	delete(w.pods, "p0")
	w.at(2)
	w.expectServed("p2")
	w.expect(appsv1beta1.EphemeralJobRunning, 2, 0, 0, 1, 0)
	w.expectCondition("Reconciling", "PodsNotRunning", "1 targets have no node yet")
	w.changePod("p1", func(pod *corev1.Pod) { pod.Spec.NodeName = "n1" })
	w.at(3)
	w.expectServed("p1 p2")
}

func TestNoTarget(t *testing.T) {
	taken := func(w *simulation) {
		w.changePod("p0", func(pod *corev1.Pod) {
			pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{ephemeral("dbg", corev1.EnvVar{Name: shared.EnvEphemeralJob, Value: "another-job"})}
		})
	}
	cases := map[string]struct {
		option func(*simulation)
		reason string
		says   string
	}{
		"no pod matches": {func(w *simulation) { delete(w.pods, "p0") }, "MatchEmpty", "matches no pod of the namespace"},
		"all have ended": {func(w *simulation) {
			w.changePod("p0", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
		}, "MatchEmpty", "that has not ended"},
		"all are terminating": {func(w *simulation) {
			w.changePod("p0", func(pod *corev1.Pod) { pod.DeletionTimestamp = &pod.CreationTimestamp })
		}, "MatchEmpty", "that has not ended"},
		"replicas is 0":     {replicas(0), "NoReplicas", "spec.replicas is 0"},
		"the name is taken": {taken, "MatchEmpty", "Names have to be new"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 1, tc.option)
			w.at(0)
			w.expect(appsv1beta1.EphemeralJobWaiting, 0, 0, 0, 0, 0)
			w.expectCondition("Stalled", tc.reason, tc.says)
			w.expectCondition("MatchedEmpty", "MatchEmpty", tc.says)
			if len(w.decision.Actions) > 0 {
				t.Errorf("actions %v", w.decision.Actions)
			}
			w.join(corev1.PodRunning)
			w.at(1)
			if tc.reason == "NoReplicas" {
				w.expectCondition("MatchedEmpty", "MatchEmpty")
				return
			}
			if w.job.Status.Matches != 1 {
				t.Errorf("a pod that joins is no target: %+v", w.job.Status)
			}
			w.expectCondition("MatchedEmpty", "")
		})
	}
}

func TestSpecsThatCannotWork(t *testing.T) {
	cases := map[string]struct {
		change func(*appsv1beta1.EphemeralJob)
		says   string
	}{
		"no selector":       {func(job *appsv1beta1.EphemeralJob) { job.Spec.Selector = nil }, "spec.selector: must not be empty"},
		"an empty selector": {func(job *appsv1beta1.EphemeralJob) { job.Spec.Selector = &metav1.LabelSelector{} }, "spec.selector: must not be empty"},
		"no containers":     {func(job *appsv1beta1.EphemeralJob) { job.Spec.Template.EphemeralContainers = nil }, "must not be empty"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 2, deadline(60))
			w.changeJob(tc.change)
			w.at(0)
			w.expectServed("")
			w.expect(appsv1beta1.EphemeralJobError, 0, 0, 0, 0, 0)
			w.expectCondition("JobError", "Error", tc.says)
			w.expectCondition("Stalled", "InvalidSpec", tc.says)
			w.at(60)
			w.expect(appsv1beta1.EphemeralJobFailed, 0, 0, 0, 0, 0)
		})
	}
}

func TestDeadlineEndsTheJobWhateverItIsAt(t *testing.T) {
	for name, option := range map[string]func(*simulation){
		"nothing matches": func(w *simulation) { clear(w.pods) },
		"paused":          func(w *simulation) { w.job.Spec.Paused = true },
		"no parallelism":  parallelism(0),
		"refused":         refusing("p0", "p1"),
		"waiting":         func(w *simulation) {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 2, deadline(5), option)
			w.at(0)
			w.at(5)
			if w.job.Status.Phase != appsv1beta1.EphemeralJobFailed || w.job.Status.CompletionTime == nil {
				t.Errorf("status %+v", w.job.Status)
			}
			w.expectCondition("JobFailed", "DeadlineExceeded")
			w.at(5 + 1800)
			if !w.gone {
				t.Error("the job is not deleted after its time")
			}
		})
	}
}

func TestParallelism(t *testing.T) {
	for name, tc := range map[string]struct {
		option func(*simulation)
		served string
		reason string
	}{
		"1 by default":           {func(*simulation) {}, "p0", ""},
		"as many as allowed":     {parallelism(3), "p0 p1 p2", ""},
		"more than pods":         {parallelism(100), "p0 p1 p2 p3 p4", ""},
		"none":                   {parallelism(0), "", "NoParallelism"},
		"a stored negative one":  {parallelism(-1), "", "NoParallelism"},
		"less than targets":      {func(w *simulation) { parallelism(2)(w); replicas(3)(w) }, "p0 p1", ""},
		"more than the replicas": {func(w *simulation) { parallelism(4)(w); replicas(3)(w) }, "p0 p1 p2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 5, tc.option)
			w.at(0)
			w.at(1) // what was added and has not been reported counts
			w.expectServed(tc.served)
			w.expectCondition("Stalled", tc.reason)
		})
	}
}

func TestLoweredReplicasDoNotLetMoreWork(t *testing.T) {
	w := newSimulation(t, 5, parallelism(2))
	w.at(0)
	w.run("p0", "p1")
	w.changeJob(func(job *appsv1beta1.EphemeralJob) { job.Spec.Replicas = pointer[int32](1) })
	w.at(1)
	w.expectServed("p0 p1")
	w.expect(appsv1beta1.EphemeralJobRunning, 1, 1, 0, 0, 0)
}

func TestStateOfATarget(t *testing.T) {
	unfinished := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	cases := map[string]struct {
		a, b *corev1.ContainerState
		want State
	}{
		"nothing reported":                {nil, nil, Waiting},
		"one is created":                  {pointer(waits("ContainerCreating")), nil, Waiting},
		"one runs":                        {pointer(runs()), nil, Running},
		"one runs, one has succeeded":     {pointer(runs()), pointer(exits(0)), Running},
		"one has succeeded":               {pointer(exits(0)), nil, Waiting},
		"both have succeeded":             {pointer(exits(0)), pointer(exits(0)), Succeeded},
		"one has failed, one runs":        {pointer(exits(3)), pointer(runs()), Failed},
		"one has failed, one succeeded":   {pointer(exits(0)), pointer(exits(3)), Failed},
		"one cannot run":                  {pointer(waits("RunContainerError")), pointer(runs()), Failed},
		"an image that cannot be pulled":  {pointer(waits("ErrImagePull")), nil, Waiting},
		"ended without a time":            {&unfinished, pointer(exits(0)), Waiting},
		"ended without a time, one fails": {&unfinished, pointer(exits(1)), Failed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 1, names("a", "b"))
			w.at(0)
			for container, state := range map[string]*corev1.ContainerState{"a": tc.a, "b": tc.b} {
				if state != nil {
					w.reports(container, *state, "p0")
				}
			}
			w.reports("unrelated", exits(1), "p0")
			spec, s := w.snapshot()
			if got := look(spec, s).targets[0].state; got != tc.want {
				t.Errorf("state %s, want %s", got, tc.want)
			}
		})
	}
}

func pointer[T any](v T) *T { return &v }

func TestContainersCarryTheirMark(t *testing.T) {
	w := newSimulation(t, 1)
	w.job.Spec.Template.EphemeralContainers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: shared.EnvEphemeralJob, Value: "forged"}}
	w.job.Spec.Template.EphemeralContainers[0].TargetContainerName = "web"
	w.at(0)
	if success := w.decision.Actions[0].Success; success.Reason != "Injected" || !strings.Contains(success.Message, "p0") {
		t.Errorf("the event is %+v", success)
	}
	got := w.pods["p0"].Spec.EphemeralContainers
	want := []corev1.EphemeralContainer{ephemeral("dbg", corev1.EnvVar{Name: "A", Value: "1"}, corev1.EnvVar{Name: shared.EnvEphemeralJob, Value: "job-uid"})}
	want[0].TargetContainerName = "web"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	if len(w.job.Spec.Template.EphemeralContainers[0].Env) != 2 {
		t.Error("the job was changed")
	}
}

func TestFinalizerOfOpenKruiseGoesWithTheJob(t *testing.T) {
	w := newSimulation(t, 1)
	w.job.Finalizers = []string{"example.com/keep", shared.FinalizerEphemeralJob}
	w.at(0)
	if len(w.job.Finalizers) != 2 {
		t.Errorf("finalizers %v before the deletion", w.job.Finalizers)
	}
	now := metav1.NewTime(began())
	w.changeJob(func(job *appsv1beta1.EphemeralJob) { job.DeletionTimestamp = &now })
	w.at(1)
	if actions := w.decision.Actions; len(actions) != 1 || actions[0].Failure.Reason != "RemoveFailed" {
		t.Errorf("no event would say that it cannot be taken away: %+v", actions)
	}
	if got := strings.Join(w.job.Finalizers, " "); got != "example.com/keep" {
		t.Errorf("finalizers %q", got)
	}
	w.expectCondition("Reconciling", "Deleting", "stay in their pods")
	w.at(2)
	if len(w.decision.Actions) > 0 {
		t.Errorf("actions %v", w.decision.Actions)
	}
}

// TestDeletedJobKeepsWhatItSays: a foreign finalizer keeps a job after its pods are no longer looked at.
func TestDeletedJobKeepsWhatItSays(t *testing.T) {
	w := newSimulation(t, 2)
	w.at(0)
	w.run("p0")
	w.at(1)
	now := metav1.NewTime(w.now)
	w.changeJob(func(job *appsv1beta1.EphemeralJob) {
		job.DeletionTimestamp, job.Finalizers = &now, []string{"example.com/keep"}
	})
	w.at(2)
	w.expect(appsv1beta1.EphemeralJobRunning, 2, 1, 0, 0, 0)
	w.expectCondition("MatchedEmpty", "")
	w.expectCondition("Reconciling", "Deleting")
	if strings.Contains(w.log.String(), "MatchEmpty") {
		t.Errorf("an event says that no pod matches\n%s", w.log)
	}
}

// TestStoredByOpenKruise: a job ended there is deleted in time, and tells how it ended.
func TestStoredByOpenKruise(t *testing.T) {
	end := metav1.NewTime(began())
	w := newSimulation(t, 1, ttl(10), func(w *simulation) {
		w.job.Status = appsv1beta1.EphemeralJobStatus{
			Phase: appsv1beta1.EphemeralJobPaused, StartTime: &end, CompletionTime: &end, Matches: 2, Succeeded: 2,
			Conditions: []appsv1beta1.EphemeralJobCondition{
				{Type: "Initialized", Status: "True", LastProbeTime: &end}, {Type: "JobSucceeded", Status: "True", Reason: "JobSucceeded", Message: "ok"},
			},
		}
	})
	w.at(1)
	w.expectServed("")
	w.expectCondition("JobSucceeded", "JobSucceeded", "ok")
	w.expectCondition("Stalled", "")
	if w.job.Status.Matches != 2 || w.job.Status.Conditions[0].LastProbeTime == nil {
		t.Errorf("status %+v", w.job.Status)
	}
	w.at(10)
	if !w.gone {
		t.Error("the job is not deleted")
	}
}

func TestStatusRestsWhileNothingChanges(t *testing.T) {
	w := newSimulation(t, 3, parallelism(2))
	w.at(0)
	w.at(1)
	before := w.job.Status.DeepCopy()
	w.at(500)
	if diff := cmp.Diff(before, &w.job.Status); diff != "" {
		t.Errorf("status (-before +after):\n%s", diff)
	}
}

func TestMatchBelowReplicasCompletes(t *testing.T) {
	w := newSimulation(t, 2, replicas(5), parallelism(5), ttl(0))
	w.at(0)
	w.exit(0, "p0", "p1")
	w.at(1)
	w.expect(appsv1beta1.EphemeralJobSucceeded, 2, 0, 0, 2, 0)
	if w.decision.RecheckAfter != storedSoon {
		t.Errorf("looked at again after %v", w.decision.RecheckAfter)
	}
	w.at(2)
	if !w.gone {
		t.Error("the job is not deleted")
	}
}
