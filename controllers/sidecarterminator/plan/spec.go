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

// Due reports if a pod's main containers are done, and a sidecar is not, or has wrongly failed the pod. A pod of sidecars
// alone is due as soon as it runs.
func Due(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || !jobsidecar.MainDone(pod) {
		return false
	}
	unended := func(c corev1.Container) bool { return jobsidecar.Is(&c) && jobsidecar.Terminated(pod, c.Name) == nil }
	return slices.ContainsFunc(pod.Spec.Containers, unended) || misjudged(pod)
}

// misjudged: the kubelet failed a pod only for exit codes that do not count. A pod failed as a whole has a reason.
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

// outcome is the phase by the counting exit codes. Under OnFailure sidecars' do not count: they would be restarted.
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
