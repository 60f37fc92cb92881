// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// stuckPod is a pod that began to wait the given time ago, in the given state of its container.
func stuckPod(name string, ago time.Duration, restarts int32, state corev1.ContainerState, change ...func(*corev1.Pod)) Pod {
	since := metav1.NewTime(now().Add(-ago))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: since}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "missing:v3"}}
	pod.Status.Phase, pod.Status.StartTime = corev1.PodPending, &since
	crash := &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 3, StartedAt: since, FinishedAt: metav1.NewTime(since.Add(time.Second))}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", RestartCount: restarts, State: state}}
	if restarts > 0 {
		pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = crash
	}
	for _, c := range change {
		c(pod)
	}
	return Observe(pod, Identity{Slot: planning.Slot(name)}, FactRules{Now: now()})
}

func waitingFor(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func TestAPodSaysWhyItDoesNotGetReady(t *testing.T) {
	noNode := func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = nil
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "0/3 nodes are available", LastTransitionTime: pod.CreationTimestamp}}
	}
	unseen := func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses, pod.Spec.SchedulerName = nil, "mine"
	}
	inInit := func(pod *corev1.Pod) {
		pod.Spec.InitContainers = []corev1.Container{{Name: "setup", Image: "gone:v1"}}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "setup", State: waitingFor("ErrImagePull", "")}}
	}
	unprepared := func(pod *corev1.Pod) {
		pod.Spec.NodeName = "n"
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, LastTransitionTime: pod.CreationTimestamp}}
	}
	const notMounted = "its volumes are not mounted, or its network is not set up: the events of the pod say why"
	oldStatus := func(pod *corev1.Pod) { pod.Generation, pod.Status.ObservedGeneration = 3, 2 }
	running := func(ago time.Duration) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now().Add(-ago))}}
	}
	starting, crash := waitingFor("PodInitializing", ""), "container c: CrashLoopBackOff (Error, exit code 3)"
	pull := "container c: ImagePullBackOff missing:v3"
	cases := map[string]struct {
		pod  Pod
		want podstate.Trouble
	}{
		"an image that cannot be pulled": {stuckPod("a", 10*time.Second, 0, waitingFor("ErrImagePull", "x")),
			podstate.Trouble{Reason: "ImagePullFailed", Message: pull, RecheckAfter: 20 * time.Second}},
		"still, after 40 s": {stuckPod("a", 40*time.Second, 0, waitingFor("ImagePullBackOff", "y")),
			podstate.Trouble{Reason: "ImagePullFailed", Message: pull, Lasting: true}},
		"a status of the image before": {stuckPod("a", time.Minute, 0, waitingFor("ImagePullBackOff", "y"), oldStatus), podstate.Trouble{}},
		"a missing ConfigMap": {stuckPod("a", time.Minute, 0, waitingFor("CreateContainerConfigError", "configmap \"x\"\n not found")),
			podstate.Trouble{Reason: "ContainerConfigError", Message: `container c: CreateContainerConfigError: configmap "x" not found`, Lasting: true}},
		"a first crash":               {stuckPod("a", time.Minute, 1, waitingFor("CrashLoopBackOff", "")), podstate.Trouble{Reason: "CrashLoop", Message: crash}},
		"a third crash":               {stuckPod("a", time.Minute, 2, waitingFor("CrashLoopBackOff", "")), podstate.Trouble{Reason: "CrashLoop", Message: crash, Lasting: true}},
		"the fourth try":              {stuckPod("a", time.Minute, 3, running(time.Second)), podstate.Trouble{Reason: "CrashLoop", Message: crash, Lasting: true, RecheckAfter: 10 * time.Second}},
		"a fourth try that goes well": {stuckPod("a", time.Minute, 3, running(20*time.Second)), podstate.Trouble{}},
		"no node for a minute": {stuckPod("a", time.Minute, 0, starting, noNode),
			podstate.Trouble{Reason: "Unschedulable", Message: "no node fits: 0/3 nodes are available", RecheckAfter: 4 * time.Minute}},
		"no node for five": {stuckPod("a", 5*time.Minute, 0, starting, noNode),
			podstate.Trouble{Reason: "Unschedulable", Message: "no node fits: 0/3 nodes are available", Lasting: true}},
		"no scheduler for a moment": {stuckPod("a", 10*time.Second, 0, starting, unseen), podstate.Trouble{RecheckAfter: 20 * time.Second}},
		"no scheduler for a minute": {stuckPod("a", time.Minute, 0, starting, unseen),
			podstate.Trouble{Reason: "Unschedulable", Message: "no scheduler has looked at it, its schedulerName is mine", RecheckAfter: 4 * time.Minute}},
		"no scheduler for five": {stuckPod("a", 5*time.Minute, 0, starting, unseen),
			podstate.Trouble{Reason: "Unschedulable", Message: "no scheduler has looked at it, its schedulerName is mine", Lasting: true}},
		"a node was given, which says nothing yet": {stuckPod("a", time.Minute, 0, starting, unseen, func(pod *corev1.Pod) { pod.Spec.NodeName = "n" }), podstate.Trouble{}},
		"a scheduler that fails": {stuckPod("a", 5*time.Minute, 0, starting, noNode, func(pod *corev1.Pod) {
			pod.Status.Conditions[0].Reason, pod.Status.Conditions[0].Message = corev1.PodReasonSchedulerError, "binding rejected"
		}), podstate.Trouble{Reason: "Unschedulable", Message: "SchedulerError: binding rejected", Lasting: true}},
		"a queue holds it": {stuckPod("a", time.Hour, 0, starting, noNode, func(pod *corev1.Pod) {
			pod.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/queue"}}
		}), podstate.Trouble{Message: "its scheduling gates have to be removed: example.com/queue"}},
		"a queue has just released it": {stuckPod("a", time.Hour, 0, starting, noNode, func(pod *corev1.Pod) {
			pod.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
		}), podstate.Trouble{}},
		"volumes that are being mounted": {stuckPod("a", 10*time.Second, 0, starting, unprepared), podstate.Trouble{RecheckAfter: 20 * time.Second}},
		"volumes that are not mounted yet": {stuckPod("a", time.Minute, 0, starting, unprepared),
			podstate.Trouble{Reason: "ContainerConfigError", Message: notMounted, RecheckAfter: 9 * time.Minute}},
		"a volume of a ConfigMap that does not exist": {stuckPod("a", 10*time.Minute, 0, starting, unprepared),
			podstate.Trouble{Reason: "ContainerConfigError", Message: notMounted, Lasting: true}},
		"a pod that runs and gets a new sandbox": {stuckPod("a", time.Hour, 0, starting, unprepared, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning }),
			podstate.Trouble{}},
		"an init container": {stuckPod("a", time.Minute, 0, starting, inInit),
			podstate.Trouble{Reason: "ImagePullFailed", Message: "init container setup: ImagePullBackOff gone:v1", Lasting: true}},
		"a pod that starts": {stuckPod("a", time.Hour, 0, starting), podstate.Trouble{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.pod.Trouble != tc.want {
				t.Errorf("trouble is %+v, want %+v", tc.pod.Trouble, tc.want)
			}
		})
	}
	long := stuckPod("a", time.Minute, 0, waitingFor("CreateContainerError", strings.Repeat("long ", 1000)))
	if n := len(long.Trouble.Message); n > 300 {
		t.Errorf("the message has %d bytes", n)
	}
}

// A command that does not exist never stalled a workload: where the process cannot be started, containerd reports that it started in 1970, and the kubelet
// has a run of 56 years. One that ends well at once stalled it only while the kubelet waited between two tries.
func TestAContainerThatCannotRunStallsTheWorkloadSteadily(t *testing.T) {
	ended := func(code int32, reason string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			status := &pod.Status.ContainerStatuses[0]
			last := corev1.ContainerStateTerminated{
				Reason: reason, ExitCode: code, StartedAt: metav1.NewTime(now().Add(-21 * time.Second)), FinishedAt: metav1.NewTime(now().Add(-20 * time.Second)),
			}
			if reason == "StartError" {
				last.StartedAt = metav1.NewTime(time.Unix(0, 0))
			}
			if status.State.Terminated != nil {
				status.State.Terminated = &last
			} else {
				status.LastTerminationState.Terminated = &last
			}
		}
	}
	waits, over := waitingFor("CrashLoopBackOff", ""), corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now().Add(-time.Second))}}
	mayEnd := func(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }
	ofInit := func(pod *corev1.Pod) {
		pod.Spec.InitContainers, pod.Status.InitContainerStatuses = pod.Spec.Containers, pod.Status.ContainerStatuses
		pod.Spec.Containers, pod.Status.ContainerStatuses = nil, nil
	}
	crash := func(why string, recheck time.Duration) podstate.Trouble {
		return podstate.Trouble{Reason: "CrashLoop", Message: "container c: CrashLoopBackOff (" + why + ")", Lasting: true, RecheckAfter: recheck}
	}
	cases := map[string]struct {
		restarts int32
		state    corev1.ContainerState
		change   []func(*corev1.Pod)
		want     podstate.Trouble
	}{
		"a command that does not exist":               {3, waits, []func(*corev1.Pod){ended(128, "StartError")}, crash("StartError, exit code 128", 0)},
		"the same when it has just failed":            {3, over, []func(*corev1.Pod){ended(128, "StartError")}, crash("StartError, exit code 128", 0)},
		"a command that ends at once":                 {3, waits, []func(*corev1.Pod){ended(0, "Completed")}, crash("Completed, exit code 0", 0)},
		"the same while it runs":                      {3, runs, []func(*corev1.Pod){ended(0, "Completed")}, crash("Completed, exit code 0", 10*time.Second)},
		"the same when it has just ended":             {3, over, []func(*corev1.Pod){ended(0, "Completed")}, crash("Completed, exit code 0", 0)},
		"a container that somebody restarts":          {1, over, []func(*corev1.Pod){ended(0, "Completed")}, podstate.Trouble{}},
		"a container that may end":                    {3, over, []func(*corev1.Pod){ended(0, "Completed"), mayEnd}, podstate.Trouble{}},
		"an init container that has ended once again": {3, over, []func(*corev1.Pod){ended(0, "Completed"), ofInit}, podstate.Trouble{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := stuckPod("a", time.Minute, tc.restarts, tc.state, tc.change...).Trouble; got != tc.want {
				t.Errorf("trouble is %+v, want %+v", got, tc.want)
			}
		})
	}
}

// The third of three updates in place within minutes stalled the workload: what an update had stopped counted as a crash, for as long as it had run, or
// while the new image was being pulled.
func TestAnUpdateInPlaceIsNoCrash(t *testing.T) {
	began := now().Add(-40 * time.Second)
	updated := func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{shared.AnnotationInPlaceState: `{"revision":"web-4","updateTimestamp":"` + began.Format(time.RFC3339) + `"}`}
	}
	stopped := func(started time.Duration) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{
			Reason: "Error", ExitCode: 137, StartedAt: metav1.NewTime(began.Add(started)), FinishedAt: metav1.NewTime(began.Add(10 * time.Second)),
		}
	}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now().Add(-10 * time.Second))}}
	after := func(last *corev1.ContainerStateTerminated) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = last }
	}
	crash := podstate.Trouble{Reason: "CrashLoop", Message: "container c: CrashLoopBackOff (Error, exit code 137)", Lasting: true}
	cases := map[string]struct {
		pod  Pod
		want podstate.Trouble
	}{
		"the new container runs":      {stuckPod("a", time.Hour, 3, runs, updated, after(stopped(-5*time.Minute))), podstate.Trouble{}},
		"its image is still pulled":   {stuckPod("a", time.Hour, 2, corev1.ContainerState{Terminated: stopped(-5 * time.Minute)}, updated), podstate.Trouble{}},
		"it has crashed since":        {stuckPod("a", time.Hour, 2, corev1.ContainerState{Terminated: stopped(2 * time.Second)}, updated), crash},
		"the kubelet waits to try it": {stuckPod("a", time.Hour, 3, waitingFor("CrashLoopBackOff", ""), updated, after(stopped(2*time.Second))), crash},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.pod.Trouble != tc.want {
				t.Errorf("trouble is %+v, want %+v", tc.pod.Trouble, tc.want)
			}
		})
	}
}

func TestAnImageThatCannotBePulledStallsTheWorkload(t *testing.T) {
	waits := Progress{Reconciling: true, Reason: "RollingOut", Message: "4 pods wait: maxUnavailable 2 is used up by ring-4, ring-5"}
	at := func(ago time.Duration) []Pod {
		return []Pod{stuckPod("ring-4", ago, 0, waitingFor("ErrImagePull", "")), stuckPod("ring-5", ago, 0, waitingFor("ImagePullBackOff", ""))}
	}
	message := "ring-4, ring-5: container c: ImagePullBackOff missing:v3; " + waits.Message
	want := Progress{Reconciling: true, Reason: "RollingOut", Message: message}
	if got := waits.WithTroubles(&planning.Plan{}, at(time.Second)); got != want {
		t.Errorf("at once: %+v, want %+v", got, want)
	}
	stalled := Progress{Stalled: true, Reason: "ImagePullFailed", Message: message}
	pods := at(time.Minute)
	if got := waits.WithTroubles(&planning.Plan{}, pods); got != stalled {
		t.Errorf("after a minute: %+v, want %+v", got, stalled)
	}
	moving := planning.Plan{Actions: []planning.Action{DeletePod("4", pods[0].Object, ReasonOutdated), DeletePod("5", pods[1].Object, ReasonOutdated)}}
	if got := waits.WithTroubles(&moving, pods); got != want {
		t.Errorf("when both are replaced: %+v, want %+v", got, want)
	}
}

// A user asked for the deletion of a crashing pod, which its set could not delete yet, and Stalled said that nothing needs the user.
func TestAPodThatIsToBeDeletedAndIsNotStallsTheWorkload(t *testing.T) {
	pod := stuckPod("web-1", time.Minute, 0, waitingFor("ImagePullBackOff", ""))
	pod.Unwanted = UnwantedSpecified
	waits := Progress{Reconciling: true, Reason: "RollingOut", Message: "1 pod waits"}
	want := Progress{Stalled: true, Reason: "ImagePullFailed", Message: "web-1: container c: ImagePullBackOff missing:v3; 1 pod waits"}
	if got := waits.WithTroubles(&planning.Plan{}, []Pod{pod}); got != want {
		t.Errorf("while the pod stays: %+v, want %+v", got, want)
	}
	goes := planning.Plan{Actions: []planning.Action{DeletePod("1", pod.Object, ReasonSpecifiedDelete)}}
	if got := waits.WithTroubles(&goes, []Pod{pod}); got.Stalled || !got.Reconciling {
		t.Errorf("while it is being deleted: %+v", got)
	}
	others := planning.Plan{Actions: []planning.Action{DeletePod("0", stuckPod("web-0", time.Minute, 0, waitingFor("ImagePullBackOff", "")).Object, ReasonSpecifiedDelete)}}
	if got := waits.WithTroubles(&others, []Pod{pod}); got.Stalled || !got.Reconciling {
		t.Errorf("while others are being deleted: %+v", got)
	}
}

// A SidecarSet has pods of many namespaces. Two of the same name looked like one pod that was named twice.
func TestPodsOfTwoNamespacesAreNamedWithTheirNamespaces(t *testing.T) {
	pods := []Pod{stuckPod("web-0", time.Second, 0, waitingFor("ErrImagePull", "")), stuckPod("web-0", time.Second, 0, waitingFor("ErrImagePull", ""))}
	pods[0].Object.Namespace, pods[1].Object.Namespace = "shop", "billing"
	want := "billing/web-0, shop/web-0: container c: ImagePullBackOff missing:v3; 1 pod waits"
	if got := (Progress{Reconciling: true, Message: "1 pod waits"}).WithTroubles(&planning.Plan{}, pods).Message; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
}

// Nothing happened to a pod whose update hung, so nothing was said about it until something happened to another one.
func TestAnUpdateInPlaceThatHangsIsSaidInTime(t *testing.T) {
	pod := object("web-0", notReady)
	began := now().Add(-10 * time.Second)
	pod.Annotations = map[string]string{shared.AnnotationInPlaceState: `{"revision":"web-2","updateTimestamp":"` + began.Format(time.RFC3339) + `"}`}
	update := inplace.Status{Progress: inplace.Running, Reason: inplace.ReasonContainerNotRestarted, Message: "container main does not run web:2 yet"}
	troubleOf := func(update inplace.Status, now time.Time) podstate.Trouble {
		return TroubleOf(pod, update, func() time.Time { return inplace.Began(pod) }, now)
	}
	if got, want := troubleOf(update, now()), (podstate.Trouble{RecheckAfter: 20 * time.Second}); got != want {
		t.Errorf("after 10 s: %+v, want %+v", got, want)
	}
	want := podstate.Trouble{Reason: "InPlaceUpdateHangs", Message: update.Message, RecheckAfter: 270 * time.Second}
	if got := troubleOf(update, now().Add(20*time.Second)); got != want {
		t.Errorf("after 30 s: %+v, want %+v", got, want)
	}
	observed := Observe(pod, Identity{Slot: "0"}, FactRules{Now: now()})
	observed.Update, observed.Trouble = update, troubleOf(update, now())
	pass := Draft{Snapshot: &Snapshot{Now: now(), Pods: []Pod{observed}}, spec: &Spec{}}
	pass.Settle(SettleRules{})
	if got := pass.Plan().RecheckAfter; got != 20*time.Second {
		t.Errorf("it is planned again after %s, want the 20 s until there is something to say", got)
	}
	if got := troubleOf(inplace.Status{Progress: inplace.Done}, now()); got.Reason != "" || got.Message == update.Message {
		t.Errorf("when it is done: %+v", got)
	}
}

// A set whose pod is on a node without a kubelet that answers was Reconciling for ever, and Stalled said that what is left goes on by itself.
func TestAnUpdateInPlaceThatHangsStallsTheWorkload(t *testing.T) {
	update := inplace.Status{Progress: inplace.Running, Reason: inplace.ReasonSpecNotObserved, Message: "the kubelet has not seen the new spec yet"}
	waits := Progress{Reconciling: true, Reason: "RollingOut", Message: "1 pod waits"}
	// after is the trouble and the progress so long after the update began, of a pod with a termination grace period. It began with a grace period
	// of ten minutes before its edit, which are no part of what hangs.
	after := func(passed time.Duration, grace int64, update inplace.Status, actions ...planning.Action) (podstate.Trouble, Progress) {
		pod := object("web-0", notReady)
		pod.Spec.TerminationGracePeriodSeconds = &grace
		edited := now().Add(-passed)
		pod.Annotations = map[string]string{shared.AnnotationInPlaceState: `{"revision":"web-2","updateTimestamp":"` + edited.Add(-10*time.Minute).Format(time.RFC3339) +
			`","containerBatchesRecord":[{"timestamp":"` + edited.Format(time.RFC3339) + `","containers":["main"]}]}`}
		facts := Observe(pod, Identity{Slot: "0"}, FactRules{Now: now()})
		facts.Trouble = TroubleOf(pod, update, func() time.Time { return inplace.Began(pod) }, now())
		return facts.Trouble, waits.WithTroubles(&planning.Plan{Actions: actions}, []Pod{facts})
	}
	stalled := Progress{Stalled: true, Reason: "InPlaceUpdateHangs", Message: "web-0: the kubelet has not seen the new spec yet; 1 pod waits"}
	going := Progress{Reconciling: true, Reason: waits.Reason, Message: stalled.Message}
	for _, tc := range []struct {
		name    string
		passed  time.Duration
		grace   int64
		recheck time.Duration
		want    Progress
	}{
		{"before five minutes", 4 * time.Minute, 30, time.Minute, going},
		{"after five minutes", 5 * time.Minute, 30, 0, stalled},
		{"while the containers may still be stopping", 6 * time.Minute, 600, 5 * time.Minute, going},
		{"a minute after they should have stopped", 11 * time.Minute, 600, 0, stalled},
	} {
		if trouble, progress := after(tc.passed, tc.grace, update); trouble.RecheckAfter != tc.recheck || progress != tc.want {
			t.Errorf("%s: %+v, looked at again in %s; want %+v, %s", tc.name, progress, trouble.RecheckAfter, tc.want, tc.recheck)
		}
	}
	if _, progress := after(time.Hour, 30, update, DeletePod("0", object("web-0"), ReasonOutdated)); progress != going {
		t.Errorf("when the pod is replaced: %+v", progress)
	}
	if _, progress := after(time.Hour, 30, inplace.Status{Progress: inplace.Done}); progress.Stalled || progress.Reason != waits.Reason || strings.Contains(progress.Message, update.Message) {
		t.Errorf("when it is done: %+v", progress)
	}
	slow := inplace.Status{Progress: inplace.Running, Reason: inplace.ReasonContainerNotReady, Message: "container main is not ready"}
	if _, progress := after(time.Hour, 30, slow); progress.Stalled {
		t.Errorf("when the next batch waits for a container that gets ready slowly: %+v", progress)
	}
}
