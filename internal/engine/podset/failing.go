// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

const (
	// ReasonBackOff is a note: pods wait to be created because others have just failed soon after their creation.
	ReasonBackOff = "BackOff"
	// ReasonPodsFail is a note: pods fail again and again soon after their creation, so new ones are created less and less often.
	ReasonPodsFail = "PodsFail"
)

const (
	// earlyFailureAge is the maximum age of a pod with an early failure. A later failure says nothing about new
	// pods.
	earlyFailureAge = 10 * time.Minute
	// firstBackOff, doubled with every round of failures up to longestBackOff, is how long creations wait after the last failure.
	firstBackOff   = time.Second
	longestBackOff = 15 * time.Minute
	// failuresExpireAfter is the time without a failure after which earlier ones no longer count. By then the
	// next pod was created, and has not failed soon.
	failuresExpireAfter = longestBackOff + earlyFailureAge + 5*time.Minute
	// FailuresToReport is the number of failures in a row to report.
	FailuresToReport = 3
)

// EarlyFailures counts the existing pods with an early failure. Failures before an available pod, or before a
// long time without failures, do not count.
type EarlyFailures struct {
	// Count is how many there are, Last is the latest one; nil without any.
	Count int
	Last  *Pod
	// at is when the latest one failed.
	at time.Time
}

// EarlyFailures are the pods' at the given revisions: with another template, counting starts again. An
// available pod ends a row of failures, and earlier ones no longer count. An evicted or preempted pod says
// nothing. A long time without failures ends a row, too: failed pods stay, and would otherwise count in a later
// scale-out.
func (s *Snapshot) EarlyFailures(revisions ...string) EarlyFailures {
	var f EarlyFailures
	var succeeded time.Time
	for i := range s.Pods {
		if pod := &s.Pods[i]; pod.Available && pod.Object.CreationTimestamp.After(succeeded) && slices.Contains(revisions, pod.Revision) {
			succeeded = pod.Object.CreationTimestamp.Time
		}
	}
	type failure struct {
		pod *Pod
		at  time.Time
	}
	var failures []failure
	for i := range s.Pods {
		pod := &s.Pods[i]
		if pod.Object.Status.Phase != corev1.PodFailed || pod.Terminating || stoppedFromOutside(pod.Object) || !slices.Contains(revisions, pod.Revision) {
			continue
		}
		at := failedAt(pod.Object)
		if at.Sub(pod.Object.CreationTimestamp.Time) <= earlyFailureAge && !at.Before(succeeded) {
			failures = append(failures, failure{pod, at})
		}
	}
	slices.SortStableFunc(failures, func(a, b failure) int { return b.at.Compare(a.at) })
	next := s.Now
	for _, failed := range failures {
		if next.Sub(failed.at) > failuresExpireAfter {
			break
		}
		if f.Count++; f.Last == nil {
			f.Last, f.at = failed.pod, failed.at
		}
		next = failed.at
	}
	return f
}

// Forgotten is when they no longer count, if no further pod fails.
func (f EarlyFailures) Forgotten(now time.Time) time.Duration {
	return f.at.Add(failuresExpireAfter).Sub(now) + time.Second
}

// failedAt is the end of a failed pod's last container, or its refusal by the node.
func failedAt(pod *corev1.Pod) time.Time {
	var at time.Time
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if ended := status.State.Terminated; ended != nil && ended.FinishedAt.After(at) {
			at = ended.FinishedAt.Time
		}
	}
	if at.IsZero() {
		return podstate.StartOf(pod)
	}
	return at
}

// Rounds is how often each of the lacking pods has failed.
func (f EarlyFailures) Rounds(lacking int) int {
	lacking = max(lacking, 1)
	return (f.Count + lacking - 1) / lacking
}

// Wait is how long creations have to wait yet after so many rounds.
func (f EarlyFailures) Wait(rounds int, now time.Time) time.Duration {
	if rounds == 0 {
		return 0
	}
	delay := min(firstBackOff<<min(rounds-1, 16), longestBackOff)
	return max(f.at.Add(delay).Sub(now), 0)
}

// Note says that pods fail, and n pods wait because of it.
func (f EarlyFailures) Note(rounds, n int) planning.Note {
	if rounds >= FailuresToReport {
		return planning.Note{Reason: ReasonPodsFail, Message: FailAgain(f.Last.Object)}
	}
	return planning.Note{
		Reason:  ReasonBackOff,
		Message: fmt.Sprintf("%s to be created: %s failed soon after its creation%s", Waits(n), f.Last.Object.Name, why(f.Last.Object)),
	}
}

// FailAgain is the message about repeated failures.
func FailAgain(pod *corev1.Pod) string {
	return fmt.Sprintf("pods fail again and again soon after their creation, such as %s%s; new ones are created less and less often", pod.Name, why(pod))
}

// Failed names a failed pod, with the reason in its status.
func Failed(pod *corev1.Pod) string { return pod.Name + why(pod) }

// why is the reason in the status of a failed pod, in brackets.
func why(pod *corev1.Pod) string {
	const longest = 200
	reason, message := pod.Status.Reason, pod.Status.Message
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if ended := status.State.Terminated; reason == "" && ended != nil && ended.ExitCode != 0 {
			reason = fmt.Sprintf("container %s: %s, exit code %d", status.Name, cmp.Or(ended.Reason, "ended"), ended.ExitCode)
		}
	}
	text := reason
	if message != "" {
		text += ": " + message
	}
	if text == "" {
		return ""
	}
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest]) + "..."
	}
	return " (" + text + ")"
}
