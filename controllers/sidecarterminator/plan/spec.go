// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/jobsidecar"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// HasSidecars says that a pod has sidecars that may have to be stopped, whatever they are at.
func HasSidecars(pod *corev1.Pod) bool { return jobsidecar.HasSidecars(pod) }

// Due says that the main containers of a pod are done and at least one of its sidecars is not, or has wrongly made the pod fail. A pod of sidecars
// alone has no main containers, so it is due as soon as it runs.
func Due(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || !jobsidecar.MainDone(pod) {
		return false
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; jobsidecar.Is(c) && jobsidecar.Terminated(pod, c.Name) == nil {
			return true
		}
	}
	return misjudged(pod)
}

// misjudged says that the kubelet calls a pod failed only for exit codes that do not count. A reason is there when it failed as a whole.
func misjudged(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "" || outcome(pod) != corev1.PodSucceeded {
		return false
	}
	disrupted := podstate.Condition(pod, corev1.DisruptionTarget)
	return disrupted == nil && !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return jobsidecar.Terminated(pod, c.Name) == nil })
}

// SinceMain is how long before now the last main container of a pod has ended; false when there is none, or one has not.
func SinceMain(pod *corev1.Pod, now time.Time) (time.Duration, bool) {
	var last time.Time
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if jobsidecar.Is(c) {
			continue
		}
		ended := jobsidecar.Terminated(pod, c.Name)
		if ended == nil {
			return 0, false
		}
		if ended.FinishedAt.After(last) {
			last = ended.FinishedAt.Time
		}
	}
	return max(0, now.Sub(last)), !last.IsZero()
}

// outcome is the phase of a pod by the containers whose exit codes count. Under OnFailure those of sidecars do not: they would be started again.
func outcome(pod *corev1.Pod) corev1.PodPhase {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		ended := jobsidecar.Terminated(pod, c.Name)
		counts := !jobsidecar.Is(c) || ended != nil && pod.Spec.RestartPolicy == corev1.RestartPolicyNever && !jobsidecar.Ignored(c)
		if counts && (ended == nil || ended.ExitCode != 0) {
			return corev1.PodFailed
		}
	}
	return corev1.PodSucceeded
}

func over(pod *corev1.Pod) bool { return podstate.Finished(pod) }
