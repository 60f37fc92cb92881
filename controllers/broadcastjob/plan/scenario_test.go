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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

// Whole jobs, one for each field of the spec, from the first pod to the end.

func TestParallelismAndTimeToLive(t *testing.T) {
	w := newSimulation(t, 5, parallelism("2"), ttl(30), func(w *simulation) { w.taint("n4", corev1.TaintEffectNoSchedule) })
	w.at(0)
	w.expectWorking("n0 n1")
	w.end(corev1.PodSucceeded, "n0")
	w.at(1)
	w.expectWorking("n1 n2")
	w.end(corev1.PodSucceeded, "n1", "n2")
	w.at(2)
	w.end(corev1.PodSucceeded, "n3")
	w.at(3)
	w.expect(appsv1beta1.BroadcastJobCompleted, 4, 0, 4, 0)
	w.expectCondition("Complete", "Complete")
	w.at(32)
	if w.gone {
		t.Error("the job is gone before its time")
	}
	if got := w.decision.RecheckAfter; got != time.Second {
		t.Errorf("looked at again after %v, want 1s", got)
	}
	w.at(33)
	if !w.gone {
		t.Error("the job is not deleted 30 s after its end")
	}
	w.golden()
}

func TestFailFast(t *testing.T) {
	w := newSimulation(t, 10, parallelism("4"))
	w.at(0)
	w.end(corev1.PodFailed, "n2")
	w.at(1)
	w.expectWorking("")
	w.collect()
	w.at(2)
	w.expect(appsv1beta1.BroadcastJobFailed, 10, 0, 0, 1)
	w.expectCondition("Failed", "Failed")
	w.expectCondition("Stalled", "Failed")
	w.at(3)
	w.golden()
	if len(w.pods) != 1 {
		t.Errorf("%d pods, want the one that failed", len(w.pods))
	}
}

func TestContinue(t *testing.T) {
	w := newSimulation(t, 10, parallelism("4"), onFailure(appsv1beta1.BroadcastJobContinue))
	for second := range 3 {
		w.at(second)
		for _, node := range strings.Fields(w.working()) {
			phase := corev1.PodSucceeded
			if node == "n2" {
				phase = corev1.PodFailed
			}
			w.end(phase, node)
		}
	}
	w.at(3)
	w.expect(appsv1beta1.BroadcastJobCompleted, 10, 0, 9, 1)
	if _, message := w.condition("Complete"); !strings.Contains(message, "9 pods succeeded, 1 pods failed") {
		t.Errorf("the message is %q", message)
	}
	w.golden()
}

func TestCompletionPolicyNever(t *testing.T) {
	w := newSimulation(t, 3, never)
	w.at(0)
	w.end(corev1.PodSucceeded, "n0", "n1", "n2")
	w.at(1)
	w.expect(appsv1beta1.BroadcastJobRunning, 3, 0, 3, 0)
	w.join("n3")
	w.at(2)
	w.expect(appsv1beta1.BroadcastJobRunning, 4, 0, 3, 0)
	w.expectWorking("n3")
	w.cordon("n1", true)
	w.at(3)
	w.expect(appsv1beta1.BroadcastJobRunning, 4, 1, 3, 0)
	w.cordon("n1", false)
	w.at(4)
	w.expectWorking("n3")
	w.golden()
}

// A job waiting for further nodes never ends, and never reported failed pods.
func TestJobThatGoesOnSaysHowManyPodsHaveFailed(t *testing.T) {
	w := newSimulation(t, 3, never, onFailure(appsv1beta1.BroadcastJobContinue))
	w.at(0)
	w.end(corev1.PodSucceeded, "n0")
	w.end(corev1.PodFailed, "n1", "n2")
	w.at(1)
	w.expect(appsv1beta1.BroadcastJobRunning, 3, 0, 1, 2)
	want := "The pods on all nodes that fit have ended, 2 of 3 with a failure. Nodes that join or begin to fit get one."
	for _, c := range w.job.Status.Conditions {
		if c.Type == "Reconciling" && (c.Reason != "Serving" || c.Message != want) {
			t.Errorf("%s: %q, want %q", c.Reason, c.Message, want)
		}
	}
}

func TestRestartLimit(t *testing.T) {
	t.Run("two restarts", func(t *testing.T) {
		w := newSimulation(t, 2, restarts(2))
		w.at(0)
		w.restart("n0", 2)
		w.at(1)
		w.expect(appsv1beta1.BroadcastJobRunning, 2, 2, 0, 0)
		w.restart("n0", 3)
		w.at(2)
		w.expectWorking("n0") // it is the evidence until the status says so
		w.at(3)
		w.expectWorking("")
		w.collect()
		w.at(4)
		w.expect(appsv1beta1.BroadcastJobFailed, 2, 0, 0, 1)
		w.golden()
	})
	t.Run("none", func(t *testing.T) {
		w := newSimulation(t, 2, restarts(0))
		w.at(0)
		w.restart("n0", 1)
		w.at(1)
		w.expect(appsv1beta1.BroadcastJobFailed, 2, 1, 0, 1)
	})
	t.Run("a job that continues ends all the same", func(t *testing.T) {
		w := newSimulation(t, 2, restarts(0), onFailure(appsv1beta1.BroadcastJobContinue))
		w.at(0)
		w.restart("n0", 1)
		w.end(corev1.PodSucceeded, "n1")
		w.at(1)
		w.at(2)
		w.collect()
		w.at(3)
		w.expect(appsv1beta1.BroadcastJobCompleted, 2, 0, 1, 1)
		w.golden()
	})
}

func TestParallelismInPercent(t *testing.T) {
	w := newSimulation(t, 7, parallelism("30%"))
	w.at(0)
	w.expectWorking("n0 n1 n2")
}

// A paused job with an unpullable image needed nothing from the user.
func TestAPausedJobSaysThatAnImageCannotBePulled(t *testing.T) {
	w := newSimulation(t, 2, parallelism("1"))
	w.at(0)
	w.job.Spec.Paused = true
	w.changePod(w.podOn("n0").Name, func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodPending
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "scan", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}
	})
	w.at(60)
	w.expectCondition("Stalled", appsv1beta1.ReasonImagePullFailed)
}

func TestPauseAndResume(t *testing.T) {
	w := newSimulation(t, 6, parallelism("2"))
	w.at(0)
	w.job.Spec.Paused = true
	w.end(corev1.PodSucceeded, "n0", "n1")
	w.at(1)
	w.expect(appsv1beta1.BroadcastJobPaused, 6, 0, 2, 0)
	w.expectWorking("")
	w.job.Spec.Paused = false
	w.at(2)
	w.expectWorking("n2 n3")
	w.golden()
}

func TestDeadline(t *testing.T) {
	w := newSimulation(t, 100, parallelism("1"), deadline(60))
	for second := 0; second < 60; second += 5 {
		w.at(second)
		w.end(corev1.PodSucceeded, w.working())
	}
	w.at(59)
	if got := w.decision.RecheckAfter; got != time.Second {
		t.Errorf("looked at again after %v, want 1s", got)
	}
	w.at(60)
	w.at(61)
	w.expectWorking("")
	w.collect()
	w.at(62)
	w.expect(appsv1beta1.BroadcastJobFailed, 100, 0, 12, 1)
	w.expectCondition("Failed", "DeadlineExceeded")
	w.golden()
}

// Jobs paused by a failure, nodes that come and go, and deleted pods.

func TestPausedByFailureStaysSoUntilItIsResumed(t *testing.T) {
	w := newSimulation(t, 6, parallelism("2"), onFailure(appsv1beta1.BroadcastJobPause))
	w.at(0)
	w.end(corev1.PodFailed, "n0")
	w.at(1)
	w.expect(appsv1beta1.BroadcastJobPaused, 6, 1, 0, 1)
	w.expectCondition("Stalled", "PausedByFailure")
	w.end(corev1.PodSucceeded, "n1")
	w.at(2)
	delete(w.pods, w.podOn("n0").Name) // the failure stays known
	w.at(3)
	w.expect(appsv1beta1.BroadcastJobPaused, 6, 0, 1, 1)
	w.expectWorking("")
	resume("monday")(w)
	w.at(4)
	w.expectWorking("n2 n3") // and n0 is not served again
	w.end(corev1.PodSucceeded, "n2")
	w.at(5)
	w.expect(appsv1beta1.BroadcastJobRunning, 6, 1, 2, 1)
	w.end(corev1.PodFailed, "n3")
	w.at(6)
	w.expectCondition("Stalled", "PausedByFailure") // a further failure pauses again
	resume("monday")(w)
	w.at(7)
	w.expectCondition("Stalled", "PausedByFailure")
	resume("tuesday")(w)
	w.at(8)
	w.end(corev1.PodSucceeded, "n4", "n5")
	w.at(9)
	w.expect(appsv1beta1.BroadcastJobCompleted, 6, 0, 4, 2)
	w.golden()
}

// A job with Pause stayed paused for ever after its last node failed, with no pod left to start.
func TestJobThatPausesCompletesWithItsLastNode(t *testing.T) {
	t.Run("the last pod fails", func(t *testing.T) {
		w := newSimulation(t, 2, parallelism("1"), onFailure(appsv1beta1.BroadcastJobPause))
		w.at(0)
		w.end(corev1.PodSucceeded, "n0")
		w.at(1)
		w.end(corev1.PodFailed, "n1")
		w.at(2)
		w.expect(appsv1beta1.BroadcastJobCompleted, 2, 0, 1, 1)
		w.expectCondition("Stalled", "")
		if _, message := w.condition("Complete"); !strings.Contains(message, "1 pods failed") {
			t.Errorf("the message is %q", message)
		}
	})
	t.Run("one fails before the last one succeeds", func(t *testing.T) {
		w := newSimulation(t, 2, onFailure(appsv1beta1.BroadcastJobPause))
		w.at(0)
		w.end(corev1.PodFailed, "n0")
		w.at(1)
		w.expectCondition("Stalled", "PausedByFailure")
		w.end(corev1.PodSucceeded, "n1")
		w.at(2)
		w.expect(appsv1beta1.BroadcastJobCompleted, 2, 0, 1, 1)
	})
	t.Run("a job that never completes waits for the next node", func(t *testing.T) {
		w := newSimulation(t, 1, never, onFailure(appsv1beta1.BroadcastJobPause))
		w.at(0)
		w.end(corev1.PodFailed, "n0")
		w.at(1)
		w.join("n1")
		w.at(2)
		w.expect(appsv1beta1.BroadcastJobPaused, 2, 0, 0, 1)
		w.expectCondition("Stalled", "PausedByFailure")
	})
}

func TestFinishedNodesAreNotServedAgain(t *testing.T) {
	w := newSimulation(t, 3, parallelism("2"))
	w.at(0)
	w.end(corev1.PodSucceeded, "n0")
	w.at(1)
	delete(w.pods, w.podOn("n0").Name) // by hand, or by the collector of old pods
	w.at(2)
	w.expect(appsv1beta1.BroadcastJobRunning, 3, 2, 1, 0)
	w.cordon("n0", true)
	w.at(3)
	w.cordon("n0", false)
	w.at(4)
	w.expectWorking("n1 n2")
	w.end(corev1.PodSucceeded, "n1", "n2")
	w.at(5)
	w.expect(appsv1beta1.BroadcastJobCompleted, 3, 0, 3, 0)
	w.golden()
}

func TestNodeThatIsCreatedAgainIsAnotherOne(t *testing.T) {
	w := newSimulation(t, 2, never)
	w.at(0)
	w.end(corev1.PodSucceeded, "n0")
	w.at(1)
	w.join("n0")
	w.at(2)
	w.expectWorking("n0 n1")
	w.expect(appsv1beta1.BroadcastJobRunning, 2, 1, 0, 0)
	w.join("n1") // while its pod works
	w.at(3)
	w.collect()
	w.at(4)
	w.expectWorking("n0 n1")
	w.golden()
}

func TestCordonWhileThePodWorks(t *testing.T) {
	w := newSimulation(t, 2)
	w.at(0)
	w.cordon("n0", true)
	w.at(1)
	w.expectWorking("n1")
	w.collect()
	w.at(2)
	w.expect(appsv1beta1.BroadcastJobRunning, 1, 1, 0, 0)
	w.cordon("n0", false)
	w.at(3)
	w.expectWorking("n0 n1")
	w.golden()
}

func TestPodThatIsDeletedWhileItWorksHasNotFailed(t *testing.T) {
	w := newSimulation(t, 2)
	w.at(0)
	now := metav1.NewTime(w.now)
	w.changePod(w.podOn("n0").Name, func(pod *corev1.Pod) { pod.DeletionTimestamp, pod.Status.Phase = &now, corev1.PodFailed })
	w.at(1)
	w.expect(appsv1beta1.BroadcastJobRunning, 2, 1, 0, 0)
	w.collect()
	w.at(2)
	w.expectWorking("n0 n1")
}

// An evicted pod failed its job, and its node got no other.
func TestAnEvictedPodFailsNoJobAndItsNodeIsTriedAgain(t *testing.T) {
	for _, policy := range []appsv1beta1.BroadcastJobFailurePolicyType{appsv1beta1.BroadcastJobFailFast, appsv1beta1.BroadcastJobContinue, appsv1beta1.BroadcastJobPause} {
		t.Run(string(policy), func(t *testing.T) {
			w := newSimulation(t, 2, onFailure(policy))
			w.at(0)
			w.changePod(w.podOn("n0").Name, func(pod *corev1.Pod) {
				pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Evicted"
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
			})
			w.at(1)
			w.expect(appsv1beta1.BroadcastJobRunning, 2, 1, 0, 0)
			w.collect()
			w.at(2)
			w.expectWorking("n0 n1")
			w.end(corev1.PodSucceeded, "n0", "n1")
			w.at(3)
			w.expect(appsv1beta1.BroadcastJobCompleted, 2, 0, 2, 0)
		})
	}
}

// A pod stayed terminating on an unresponsive node, and its job reported pods at work for ever.
func TestAPodThatDoesNotEndIsNamed(t *testing.T) {
	w := newSimulation(t, 2)
	w.at(0)
	name, now := w.podOn("n0").Name, metav1.NewTime(w.now)
	w.changePod(name, func(pod *corev1.Pod) { pod.DeletionTimestamp = &now })
	w.end(corev1.PodSucceeded, "n1")
	w.at(10)
	if _, got := w.condition("Reconciling"); strings.Contains(got, name) || w.decision.RecheckAfter != 20*time.Second {
		t.Errorf("after 10 s: %q, looked at again in %s", got, w.decision.RecheckAfter)
	}
	w.at(30)
	want := name + " is still terminating 30s after the grace period: a node does not answer, or a finalizer holds a pod"
	if reason, got := w.condition("Reconciling"); reason != appsv1beta1.ReasonRunningPods || got != want {
		t.Errorf("after 30 s: %s %q, want %q", reason, got, want)
	}
	w.cordon("n0", true) // nothing waits for a node that does not fit
	w.at(31)
	w.expect(appsv1beta1.BroadcastJobCompleted, 1, 0, 1, 0)
}

func TestPodThatSucceedsWhileItIsDeletedHasSucceeded(t *testing.T) {
	w := newSimulation(t, 2)
	w.at(0)
	now := metav1.NewTime(w.now)
	w.changePod(w.podOn("n0").Name, func(pod *corev1.Pod) { pod.DeletionTimestamp, pod.Status.Phase = &now, corev1.PodSucceeded })
	w.at(1)
	w.collect()
	w.at(2)
	w.expect(appsv1beta1.BroadcastJobRunning, 2, 1, 1, 0)
	w.expectWorking("n1")
}

func TestPodsAtWorkAreDeletedAsTheyWereSeen(t *testing.T) {
	w := newSimulation(t, 2)
	w.at(0)
	w.cordon("n0", true)
	spec, s := w.snapshot()
	if actions := Plan(spec, s).Actions; len(actions) != 1 || !actions[0].ExactVersion {
		t.Errorf("actions %+v", actions)
	}
}

func TestNodeThatLeaves(t *testing.T) {
	w := newSimulation(t, 2, parallelism("1"))
	w.at(0)
	delete(w.nodes, "n0")
	w.at(1)
	w.expectWorking("")
	w.at(2)
	w.expectWorking("n1") // a pod that is going holds no place
	w.end(corev1.PodSucceeded, "n1")
	w.collect()
	w.at(3)
	w.expect(appsv1beta1.BroadcastJobCompleted, 1, 0, 1, 0)
}

func TestNoFittingNodeIsNoCompletion(t *testing.T) {
	w := newSimulation(t, 3, func(w *simulation) {
		w.taint("n0", corev1.TaintEffectNoSchedule)
		w.taint("n1", corev1.TaintEffectNoExecute)
		w.cordon("n2", true)
	})
	w.at(0)
	w.expect(appsv1beta1.BroadcastJobRunning, 0, 0, 0, 0)
	w.expectCondition("Stalled", "NoFittingNode")
	if _, message := w.condition("Stalled"); !strings.Contains(message, "1 of 3 because the node has taint dedicated:NoExecute") {
		t.Errorf("the message is %q", message)
	}
	w.cordon("n2", false)
	w.at(1)
	w.expectWorking("n2")
	w.expectCondition("Stalled", "")
	empty := newSimulation(t, 0)
	empty.at(0)
	empty.expectCondition("Stalled", "NoFittingNode")
}

func TestFit(t *testing.T) {
	cases := map[string]struct {
		change func(*simulation)
		want   string
	}{
		"every node":       {func(*simulation) {}, "n0 n1"},
		"a selector":       {func(w *simulation) { w.job.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "b"} }, "n1"},
		"a node by name":   {func(w *simulation) { w.job.Spec.Template.Spec.NodeName = "n1" }, "n1"},
		"NoSchedule":       {func(w *simulation) { w.taint("n0", corev1.TaintEffectNoSchedule) }, "n1"},
		"NoExecute":        {func(w *simulation) { w.taint("n0", corev1.TaintEffectNoExecute) }, "n1"},
		"PreferNoSchedule": {func(w *simulation) { w.taint("n0", corev1.TaintEffectPreferNoSchedule) }, "n0 n1"},
		"cordoned":         {func(w *simulation) { w.cordon("n0", true) }, "n1"},
		"tolerated": {func(w *simulation) {
			w.taint("n0", corev1.TaintEffectNoSchedule)
			w.job.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
		}, "n0 n1"},
		"more than the node has": {func(w *simulation) {
			w.job.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}
		}, "n1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 2)
			for node, cpu := range map[string]string{"n0": "2", "n1": "4"} {
				w.changeNode(node, func(n *corev1.Node) {
					n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourcePods: resource.MustParse("110")}
				})
			}
			w.changeNode("n1", func(n *corev1.Node) { n.Labels = map[string]string{"zone": "b"} })
			tc.change(w)
			w.at(0)
			w.expectWorking(tc.want)
		})
	}
}

func TestParallelism(t *testing.T) {
	cases := map[string]struct {
		value   string
		desired int
		want    int
	}{
		"a number": {"3", 7, 3}, "none": {"0", 7, 0}, "rounded up": {"30%", 7, 3}, "at least one": {"1%", 7, 1}, "none of many counts as one": {"0%", 7, 1},
		"all": {"100%", 7, 7}, "more than all": {"200%", 7, 14},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 0, parallelism(tc.value))
			if got := Parse(w.job, w.bind).Parallelism(tc.desired); got != tc.want {
				t.Errorf("%s of %d: %d, want %d", tc.value, tc.desired, got, tc.want)
			}
		})
	}
	t.Run("0 is told", func(t *testing.T) {
		w := newSimulation(t, 2, parallelism("0"))
		w.at(0)
		w.expectWorking("")
		w.expectCondition("Stalled", "NoParallelism")
	})
	t.Run("lowered, nothing is deleted", func(t *testing.T) {
		w := newSimulation(t, 4, parallelism("3"))
		w.at(0)
		parallelism("1")(w)
		w.job.Generation++
		w.at(1)
		w.expectWorking("n0 n1 n2")
		if !strings.Contains(w.log.String(), "(TooManyActivePods)") {
			t.Error("no event TooManyActivePods")
		}
	})
	t.Run("what cannot be read stops the job", func(t *testing.T) {
		w := newSimulation(t, 2, parallelism("many"))
		w.at(0)
		w.expectWorking("")
		w.expectCondition("Stalled", appsv1beta1.ReasonInvalidSpec)
	})
}

func TestPods(t *testing.T) {
	w := newSimulation(t, 1)
	w.at(0)
	pod := w.podOn("n0")
	wantLabels := map[string]string{"app": "scan", "broadcastjob-name": "scan", "broadcastjob-controller-uid": "job-uid"}
	if diff := cmp.Diff(wantLabels, pod.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if owner := metav1.GetControllerOf(pod); owner == nil || owner.UID != "job-uid" || owner.APIVersion != "apps.kruise.io/v1beta1" || !*owner.BlockOwnerDeletion {
		t.Errorf("the owner is %+v", owner)
	}
	if got := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values; !cmp.Equal(got, []string{"n0"}) {
		t.Errorf("the affinity is to %v", got)
	}
	if pod.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways || pod.Annotations[shared.AnnotationNodeUID] != "uid-n0-1" {
		t.Errorf("the pod is %+v", pod)
	}
	bound := newSimulation(t, 1, func(w *simulation) { w.bind = true })
	spec, s := bound.snapshot()
	actions := Plan(spec, s).Actions
	if len(actions) != 1 {
		t.Fatalf("the plan is %+v, want one pod", actions)
	}
	if made := actions[0].Object.(*corev1.Pod); made.Spec.NodeName != "n0" || made.Spec.Affinity != nil {
		t.Errorf("nodeName is %q, affinity %v", made.Spec.NodeName, made.Spec.Affinity)
	}
	long := newSimulation(t, 1)
	long.job.Name = strings.Repeat("a", 51) + "-" + strings.Repeat("b", 11)
	long.at(0)
	if name := long.podOn("n0").Name; len(name) > 63 || strings.Contains(name, "--") {
		t.Errorf("the pod is named %s", name)
	}
}

func TestPodsOfOpenKruiseCount(t *testing.T) {
	w := newSimulation(t, 3)
	for i, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodSucceeded} {
		w.pods[fmt.Sprint("scan-x", i)] = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("scan-x", i), CreationTimestamp: metav1.NewTime(w.now)},
			Spec:       corev1.PodSpec{NodeName: fmt.Sprint("n", i)}, Status: corev1.PodStatus{Phase: phase},
		}
	}
	w.at(0)
	w.expectWorking("n0 n2")
	w.at(1)
	w.expect(appsv1beta1.BroadcastJobRunning, 3, 2, 1, 0)
}

func TestSecondPodOfANodeGoes(t *testing.T) {
	w := newSimulation(t, 1)
	w.at(0)
	second := w.podOn("n0").DeepCopy()
	second.Name, second.UID, second.CreationTimestamp = "scan-second", "uid-second", metav1.NewTime(w.now.Add(time.Second))
	w.pods[second.Name] = second
	w.at(2)
	if w.pods["scan-second"].DeletionTimestamp == nil {
		t.Errorf("it stays\n%s", w.log)
	}
	if actions := w.decision.Actions; len(actions) != 1 || actions[0].Success.Reason != "DuplicatePodCreatedOnSameNode" {
		t.Errorf("no event tells of it: %+v", actions)
	}
	w.expectWorking("n0")
}

func TestRefusedPodsAreTold(t *testing.T) {
	w := newSimulation(t, 2, func(w *simulation) { w.refuses = true })
	w.at(0)
	w.expectCondition("FailedCreate", "RequestFailed")
	w.expectCondition("Reconciling", "RequestFailed")
}

// A node with an always refused pod used up parallelism: the others waited for ever.
func TestANodeWhosePodIsRefusedLeavesItsPlaceToOthers(t *testing.T) {
	w := newSimulation(t, 3, parallelism("1"))
	spec, s := w.snapshot()
	s.Retries = func(key planning.RetryKey) (planning.Retry, bool) {
		pod := spec.newPod(&s.Nodes[0])
		return planning.Retry{Wait: time.Hour}, key == planning.RetryKey{Step: podset.StepCreate, Namespace: pod.Namespace, Name: pod.Name}
	}
	d := Plan(spec, s)
	var created []string
	for i := range d.Actions {
		created = append(created, string(d.Actions[i].Slot))
		if d.Aside[d.Actions[i].RetryKey()] != (i == 0) {
			t.Errorf("the key of the pod for %s is %+v", d.Actions[i].Slot, d.Actions[i].RetryKey())
		}
	}
	if got := strings.Join(created, " "); got != "n0 n1" || d.waiting != 1 {
		t.Errorf("pods are created for %q, and %d nodes wait; want n0, which is not tried now, and n1, and 1", got, d.waiting)
	}
}

// As many refused pods as a plan creates at most kept all other nodes waiting.
func TestManyNodesWhosePodsAreRefusedKeepNoOthersWaiting(t *testing.T) {
	w := newSimulation(t, 700)
	spec, s := w.snapshot()
	refused := map[planning.RetryKey]bool{}
	for i := range 600 {
		refused[spec.creationKey(&s.Nodes[i])] = true
	}
	s.Retries = func(key planning.RetryKey) (planning.Retry, bool) {
		return planning.Retry{Wait: time.Hour}, refused[key]
	}
	d := Plan(spec, s)
	if len(d.Actions) != 700 || len(d.Aside) != 600 {
		t.Errorf("%d pods are planned, of which %d yield; want 700 and 600", len(d.Actions), len(d.Aside))
	}
}

// Each pod of a plan was a copy of the template.
func TestALargeTemplateForManyNodesDoesNotUseUpTheMemory(t *testing.T) {
	w := newSimulation(t, 1000)
	podsettest.Largest(&w.job.Spec.Template)
	spec, s := w.snapshot()
	podsettest.Cost(t, podsettest.MaxPlan, func() { Plan(spec, s) })
}

func TestDeadlineCountsWhilePausedAndStopsPodsAfterwards(t *testing.T) {
	w := newSimulation(t, 2, deadline(10))
	w.at(0)
	w.job.Spec.Paused = true
	w.at(20)
	w.expectWorking("n0 n1")
	w.job.Spec.Paused = false
	w.at(21)
	w.at(22)
	w.expectWorking("")
}

// The conditions reported a failed pod without name or reason.
func TestAFailureNamesAPodThatHasFailed(t *testing.T) {
	for policy, condition := range map[appsv1beta1.BroadcastJobFailurePolicyType]string{
		appsv1beta1.BroadcastJobFailFast: "Failed", appsv1beta1.BroadcastJobPause: "Stalled",
	} {
		t.Run(string(policy), func(t *testing.T) {
			w := newSimulation(t, 2, onFailure(policy))
			w.at(0)
			name := w.podOn("n0").Name
			w.changePod(name, func(pod *corev1.Pod) {
				pod.Status.Phase = corev1.PodFailed
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
					Name: "scan", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}},
				}}
			})
			w.at(1)
			w.at(2)
			if _, message := w.condition(condition); !strings.Contains(message, ": "+name+" (container scan: OOMKilled, exit code 137)") {
				t.Errorf("condition %s says %q", condition, message)
			}
		})
	}
}

func TestDeadlineFailsAJobThatFailuresWouldPause(t *testing.T) {
	w := newSimulation(t, 3, deadline(10), onFailure(appsv1beta1.BroadcastJobPause), parallelism("2"))
	w.at(0)
	w.end(corev1.PodSucceeded, "n0")
	w.at(10)
	w.expect(appsv1beta1.BroadcastJobFailed, 3, 0, 1, 1)
	w.at(11)
	w.expect(appsv1beta1.BroadcastJobFailed, 3, 0, 1, 1)
	w.expectWorking("")
	w.job.Spec.Paused = true
	w.at(12)
	w.job.Spec.Paused = false
	w.collect()
	w.at(13)
	w.expect(appsv1beta1.BroadcastJobFailed, 3, 0, 1, 1)
	w.expectCondition("Failed", "DeadlineExceeded")
}

// An operator away at the last pod's end reported a job taking too long.
func TestDeadlineDoesNotFailAJobThatIsDone(t *testing.T) {
	w := newSimulation(t, 2, deadline(10))
	w.at(0)
	w.end(corev1.PodSucceeded, "n0", "n1")
	w.at(60)
	w.expect(appsv1beta1.BroadcastJobCompleted, 2, 0, 2, 0)
	w.expectCondition("Complete", appsv1beta1.ReasonJobComplete)
}

func TestDeletedJobIsLeftAlone(t *testing.T) {
	w := newSimulation(t, 3, parallelism("2"))
	w.at(0)
	w.end(corev1.PodSucceeded, "n0")
	now := metav1.NewTime(w.now)
	w.job.DeletionTimestamp = &now
	w.at(1)
	w.expectWorking("n1") // The garbage collector deletes it.
	if got := len(w.decision.Actions); got > 0 {
		t.Errorf("%d actions\n%s", got, w.log)
	}
	w.expect(appsv1beta1.BroadcastJobRunning, 3, 1, 1, 0)
	w.expectCondition("Reconciling", appsv1beta1.ReasonDeleting)
}

func TestPausedJobThatIsDeletedIsNotContinued(t *testing.T) {
	w := newSimulation(t, 2, parallelism("1"))
	w.job.Spec.Paused = true
	w.at(0)
	now := metav1.NewTime(w.now)
	w.job.DeletionTimestamp = &now
	w.at(1)
	w.expect(appsv1beta1.BroadcastJobPaused, 2, 0, 0, 0)
	if log := w.log.String(); strings.Contains(log, "Continue") {
		t.Errorf("an event says that pods are started again\n%s", log)
	}
}

func TestEndedJobsAreInert(t *testing.T) {
	w := newSimulation(t, 2)
	w.at(0)
	w.end(corev1.PodSucceeded, "n0", "n1")
	w.at(1)
	before := w.job.Status.DeepCopy()
	w.join("n2")
	delete(w.nodes, "n0")
	w.collect()
	w.at(100)
	if diff := cmp.Diff(before, w.job.Status.DeepCopy()); diff != "" {
		t.Errorf("the status changed (-before +after):\n%s", diff)
	}
	w.expectWorking("")
	never(w)
	w.at(101)
	w.expectWorking("n2") // made one that never completes, it serves what came since
}

func TestFiveThousandNodes(t *testing.T) {
	w := newSimulation(t, 5000, never)
	for range 10 {
		w.now = w.now.Add(time.Second)
		w.pass()
		if got := len(w.decision.Actions); got > 500 {
			t.Fatalf("%d actions in one plan", got)
		}
	}
	for name, pod := range w.pods {
		w.changePod(name, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
		_ = pod
	}
	w.pass()
	w.expect(appsv1beta1.BroadcastJobRunning, 5000, 0, 5000, 0)
	if got := len(w.job.Status.Finished.Succeeded); got != 40_000 {
		t.Errorf("5000 nodes take %d bytes", got)
	}
	clear(w.pods)
	began := time.Now()
	w.pass()
	t.Logf("measured: a pass over 5000 nodes takes %v", time.Since(began).Round(time.Millisecond))
	w.expect(appsv1beta1.BroadcastJobRunning, 5000, 0, 5000, 0)
	for i := range 4000 {
		delete(w.nodes, fmt.Sprint("n", i))
	}
	w.pass()
	if got := len(w.job.Status.Finished.Succeeded); got != 8_000 {
		t.Errorf("1000 nodes take %d bytes", got)
	}
}

func TestEventsOfPods(t *testing.T) {
	w := newSimulation(t, 1)
	w.at(0)
	created := w.decision.Actions
	delete(w.nodes, "n0")
	w.at(1)
	for what, tc := range map[string]struct {
		actions          []planning.Action
		success, failure string
	}{
		"a pod is created":        {created, "SuccessfulCreate", "FailedCreate"},
		"the pod of no node goes": {w.decision.Actions, "SuccessfulDelete", "FailedDelete"},
	} {
		if len(tc.actions) != 1 {
			t.Fatalf("%s: %d actions\n%s", what, len(tc.actions), w.log)
		}
		a := tc.actions[0]
		if a.Success.Reason != tc.success || a.Success.Warning || a.Failure.Reason != tc.failure || !a.Failure.Warning {
			t.Errorf("%s: %+v, or %+v", what, a.Success, a.Failure)
		}
	}
}
