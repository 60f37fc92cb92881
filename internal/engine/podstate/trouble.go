// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podstate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
)

// Trouble is why a pod does not get ready, as far as its status says so. The zero value: nothing is known.
type Trouble struct {
	// Reason is the reason for conditions; empty for trouble that never stalls a workload.
	Reason string
	// Message is one short sentence for the user, with the container's name. It stays the same
	// while the trouble does.
	Message string
	// Lasting: the pod will hardly get over it by itself.
	Lasting bool
	// RecheckAfter is above zero when time alone could change the answer.
	RecheckAfter time.Duration
}

const (
	// pullTimeout is for how long an image or a setting may be missing: often it comes a moment after the pod.
	pullTimeout = 30 * time.Second
	// scheduleTimeout is for how long a pod may be without a node: an autoscaler may bring one.
	scheduleTimeout = 5 * time.Minute
	// prepareTimeout is for how long a pod may wait for its volumes and network: a volume leaves a
	// lost node after six minutes.
	prepareTimeout = 10 * time.Minute
	// manyCrashes is how many crashes in a row are no accident.
	manyCrashes = 3
	// longRun makes the next crash of a container the first one: the kubelet forgets those before.
	longRun = 10 * time.Minute
	// outlived is by how much a container has to run longer than the last time for its crashes to be over.
	outlived = 10 * time.Second
	// longestMessage is how many characters of a message of the cluster are shown.
	longestMessage = 200
	// shownNames is how many containers a message names.
	shownNames = 3
)

// TroubleOf says why the pod does not get ready. began is the last change in place of its
// containers; zero for none. Only for a pod with trouble. An earlier status does not count.
// Terminating pods have no trouble, nor have pods with a status about an older spec.
func TroubleOf(pod *corev1.Pod, began func() time.Time, now time.Time) Trouble {
	switch {
	case pod.DeletionTimestamp != nil, pod.Status.Phase == corev1.PodSucceeded:
		return Trouble{}
	case pod.Status.Phase == corev1.PodFailed:
		return Trouble{Message: "it has failed: " + clip(strings.Trim(pod.Status.Reason+": "+pod.Status.Message, ": "))}
	case pod.Status.ObservedGeneration > 0 && pod.Status.ObservedGeneration < pod.Generation:
		return Trouble{}
	}
	if pod.Spec.NodeName == "" && pod.Status.Phase == corev1.PodPending && len(pod.Status.ContainerStatuses)+len(pod.Status.InitContainerStatuses) == 0 {
		return withoutNode(pod, now)
	}
	var worst Trouble
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		ends := container.RestartPolicy == nil || *container.RestartPolicy != corev1.ContainerRestartPolicyAlways
		worst = worse(worst, containerTrouble(pod, container, pod.Status.InitContainerStatuses, "init container", ends, began, now))
	}
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		worst = worse(worst, containerTrouble(pod, container, pod.Status.ContainerStatuses, "container", mayEnd(pod, container), began, now))
	}
	if worst.Message == "" && pod.Status.Phase == corev1.PodPending {
		return unprepared(pod, now)
	}
	return worst
}

// unprepared is the trouble of a pod without its volumes or network: containers come after that.
// The status does not say why; a missing ConfigMap or Secret is a usual cause.
func unprepared(pod *corev1.Pod, now time.Time) Trouble {
	prepared := Condition(pod, corev1.PodReadyToStartContainers)
	if prepared == nil || prepared.Status != corev1.ConditionFalse {
		return Trouble{}
	}
	since := prepared.LastTransitionTime
	if left := since.Add(pullTimeout).Sub(now); left > 0 {
		return Trouble{RecheckAfter: left}
	}
	t := Trouble{Reason: appsv1beta1.ReasonContainerConfigError, Message: "its volumes are not mounted, or its network is not set up: the events of the pod say why"}
	return t.after(since.Add(prepareTimeout), now)
}

// mayEnd: a main container may end for good, by its restart policy or the pod's.
func mayEnd(pod *corev1.Pod, container *corev1.Container) bool {
	if container.RestartPolicy != nil {
		return *container.RestartPolicy != corev1.ContainerRestartPolicyAlways
	}
	return pod.Spec.RestartPolicy != corev1.RestartPolicyAlways && pod.Spec.RestartPolicy != ""
}

// withoutNode is the trouble of a pod without a node. It lasts after scheduleTimeout, but for a pod
// with scheduling gates: a queue, for example, may hold these for long. A silent scheduler may have
// many other pods, so for pullTimeout that is no trouble.
func withoutNode(pod *corev1.Pod, now time.Time) Trouble {
	scheduled := Condition(pod, corev1.PodScheduled)
	switch {
	case len(pod.Spec.SchedulingGates) > 0:
		names := make([]string, 0, shownNames)
		for _, gate := range pod.Spec.SchedulingGates[:min(len(pod.Spec.SchedulingGates), shownNames)] {
			names = append(names, gate.Name)
		}
		return Trouble{Message: "its scheduling gates have to be removed: " + clip(strings.Join(names, ", "))}
	case scheduled == nil:
		silent := pod.CreationTimestamp.Add(pullTimeout)
		if left := silent.Sub(now); left > 0 {
			return Trouble{RecheckAfter: left}
		}
		t := Trouble{Reason: appsv1beta1.ReasonUnschedulable, Message: "no scheduler has looked at it, its schedulerName is " + clip(pod.Spec.SchedulerName)}
		return t.after(pod.CreationTimestamp.Add(scheduleTimeout), now)
	case scheduled.Status != corev1.ConditionFalse, scheduled.Reason == corev1.PodReasonSchedulingGated: // these gates are gone, and the scheduler is about to look
		return Trouble{}
	}
	t := Trouble{Reason: appsv1beta1.ReasonUnschedulable, Message: "no node fits: " + clip(scheduled.Message)}
	if scheduled.Reason != corev1.PodReasonUnschedulable {
		t.Message = strings.Trim(scheduled.Reason+": "+clip(scheduled.Message), ": ")
	}
	return t.after(scheduled.LastTransitionTime.Add(scheduleTimeout), now)
}

// worse is the lasting trouble, else the first. Time alone may make the other one last.
func worse(a, b Trouble) Trouble {
	switch {
	case a.Message == "", b.Lasting && !a.Lasting:
		return b
	case !a.Lasting && b.RecheckAfter > 0 && (a.RecheckAfter == 0 || b.RecheckAfter < a.RecheckAfter):
		a.RecheckAfter = b.RecheckAfter
	}
	return a
}

// after is the trouble, lasting from a time on.
func (t Trouble) after(at, now time.Time) Trouble {
	t.RecheckAfter = max(at.Sub(now), 0)
	t.Lasting = t.RecheckAfter == 0
	return t
}

// containerTrouble is the trouble of one container; ends: it may end well. Nothing is computed
// without trouble: every pod is looked at in every pass.
func containerTrouble(
	pod *corev1.Pod, container *corev1.Container, statuses []corev1.ContainerStatus, what string, ends bool, began func() time.Time, now time.Time,
) Trouble {
	i := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == container.Name })
	if i < 0 {
		return Trouble{}
	}
	status := &statuses[i]
	reason, detail := "", ""
	if status.State.Waiting != nil {
		reason, detail = status.State.Waiting.Reason, status.State.Waiting.Message
	}
	var t Trouble
	switch reason {
	case "ErrImagePull", "ImagePullBackOff":
		// The kubelet goes back and forth between the two. One name for both keeps the message still.
		t = waiting(pod, appsv1beta1.ReasonImagePullFailed, "ImagePullBackOff "+clip(container.Image), began, now)
	case "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
		t = waiting(pod, appsv1beta1.ReasonImagePullFailed, reason+" "+clip(container.Image), began, now)
	case "CreateContainerConfigError":
		t = waiting(pod, appsv1beta1.ReasonContainerConfigError, strings.Trim(reason+": "+clip(detail), ": "), began, now)
		if _, ordered := launch.At(pod.Name, container); ordered && strings.Contains(detail, launch.BarrierName(pod.Name)) {
			t = atBarrier(pod, container)
		}
	case "CreateContainerError", "PreCreateHookError", "PreStartHookError":
		t = waiting(pod, appsv1beta1.ReasonContainerConfigError, strings.Trim(reason+": "+clip(detail), ": "), began, now)
	default:
		t = crashing(pod, status, ends, began, now)
	}
	if t.Message != "" {
		t.Message = what + " " + container.Name + ": " + t.Message
	}
	return t
}

// atBarrier is the trouble of a container before the release of its launch priority. Before its
// turn all is well. In its turn the kubelet needs some seconds to try again, or the operator cannot
// release it, and an event of the pod tells. How long is not known here, so it never lasts; the
// trouble of earlier containers may.
func atBarrier(pod *corev1.Pod, container *corev1.Container) Trouble {
	t := Trouble{Reason: appsv1beta1.ReasonContainerConfigError}
	if before := launch.HeldBy(pod, container.Name); len(before) > 0 {
		t.Message = "starts when " + strings.Join(before[:min(len(before), shownNames)], ", ") + " is ready, by its launch priority"
	} else {
		t.Message = "waits for its launch priority in ConfigMap " + launch.BarrierName(pod.Name)
	}
	return t
}

// waiting is the trouble of a container that cannot start. It lasts after pullTimeout.
func waiting(pod *corev1.Pod, reason, message string, began func() time.Time, now time.Time) Trouble {
	return Trouble{Reason: reason, Message: message}.after(waitingSince(pod, began()).Add(pullTimeout), now)
}

// crashing is the trouble of a container in a crash loop. It lasts during the next try, until that
// one has run for longer than the last. A container made to run for ever crashes with code 0, too,
// but not the first time: a deliberate restart ends with code 0 as well. An end by a change in
// place is no crash.
func crashing(pod *corev1.Pod, status *corev1.ContainerStatus, ends bool, began func() time.Time, now time.Time) Trouble {
	last, crashes := status.LastTerminationState.Terminated, int(status.RestartCount)
	many := crashes >= manyCrashes-1
	crashed := func() bool { return (last.ExitCode != 0 || many && !ends) && !startOfRun(last).Before(began()) }
	var over time.Time
	switch state := &status.State; {
	case state.Terminated != nil:
		if last = state.Terminated; !crashed() {
			return Trouble{}
		}
		crashes++
	case state.Waiting != nil && slices.Contains([]string{"CrashLoopBackOff", "RunContainerError", "PostStartHookError"}, state.Waiting.Reason):
		crashes++
	case state.Running != nil && last != nil && many:
		over = state.Running.StartedAt.Add(runOf(last) + outlived)
		if runOf(last) >= longRun || !now.Before(over) || !crashed() {
			return Trouble{}
		}
	default:
		return Trouble{}
	}
	t := Trouble{Reason: appsv1beta1.ReasonCrashLoop, Message: "CrashLoopBackOff"}
	if last != nil {
		t.Message += fmt.Sprintf(" (%s, exit code %d)", last.Reason, last.ExitCode)
	}
	// Changes in place restart a container, too. Three crashes since then take longer than this.
	if crashes >= manyCrashes && (last == nil || runOf(last) < longRun) {
		t = t.after(Later(began(), StartOf(pod)).Add(pullTimeout), now)
	}
	if left := over.Sub(now); left > 0 && (t.RecheckAfter == 0 || left < t.RecheckAfter) {
		t.RecheckAfter = left
	}
	return t
}

func runOf(last *corev1.ContainerStateTerminated) time.Duration {
	return last.FinishedAt.Sub(startOfRun(last))
}

// startOfRun is the start of a container's instance. A process without a start has 1970 there.
func startOfRun(last *corev1.ContainerStateTerminated) time.Time {
	if last.StartedAt.Unix() <= 0 {
		return last.FinishedAt.Time
	}
	return last.StartedAt.Time
}

// waitingSince is since when an unstarted container has been waiting, at the earliest: the state
// itself has no time.
func waitingSince(pod *corev1.Pod, began time.Time) time.Time {
	since := Later(began, StartOf(pod))
	if ready := Condition(pod, corev1.ContainersReady); ready != nil && ready.Status != corev1.ConditionTrue {
		since = Later(since, ready.LastTransitionTime.Time)
	}
	return since
}

// StartOf is when a pod was started by its node; until then, when it was created.
func StartOf(pod *corev1.Pod) time.Time {
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return pod.CreationTimestamp.Time
}

// Later is the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func clip(text string) string { return Clip(text, longestMessage) }

// Clip makes one short line of a text.
func Clip(text string, longest int) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) <= longest {
		return string(runes)
	}
	return string(runes[:longest]) + "..."
}
