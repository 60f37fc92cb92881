// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podstate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Disrupted says that the pod has failed and its program has not. It was evicted or preempted, or its node
// shut down or refused it.
func Disrupted(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodFailed {
		return false
	}
	if isTrue(find(pod.Status.Conditions, corev1.DisruptionTarget)) {
		return true
	}
	switch pod.Status.Reason {
	case "Evicted":
		// A pod beyond a limit of its own has itself to blame. It gets no DisruptionTarget, and
		// only the message tells.
		return !strings.Contains(pod.Status.Message, "limit")
	case "Terminated", "NodeShutdown", "Shutdown", "NodeLost", "Preempting", "NodeAffinity", "NodePorts", "InvalidNodeInfo", "TopologyAffinityError",
		"UnexpectedAdmissionError":
		return true
	}
	return strings.HasPrefix(pod.Status.Reason, "OutOf")
}

// Ran says that a container of the pod has begun to run.
func Ran(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), func(status corev1.ContainerStatus) bool {
		return status.ContainerID != "" || status.State.Running != nil || status.State.Terminated != nil
	})
}
