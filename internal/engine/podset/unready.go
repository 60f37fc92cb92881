// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

// unreadyTimeout is for how long a pod may be not ready before conditions explain it: most pods start within
// it.
const unreadyTimeout = 30 * time.Second

// unready is the wait of a pod with sound containers: for its node, the first unready container, or a readiness
// gate. It never stalls the workload: its owner decides how long a container may take. Our own changes to a
// pod, and terminating pods, are reported elsewhere.
func unready(pod *corev1.Pod, now time.Time) podstate.Trouble {
	if podstate.Finished(pod) || pod.Status.ObservedGeneration > 0 && pod.Status.ObservedGeneration < pod.Generation {
		return podstate.Trouble{}
	}
	ready := podstate.Condition(pod, corev1.PodReady)
	since := pod.CreationTimestamp
	switch {
	case ready == nil && (pod.Spec.NodeName == "" || pod.Status.StartTime != nil), ready != nil && ready.Status == corev1.ConditionTrue:
		return podstate.Trouble{}
	case ready != nil:
		since = ready.LastTransitionTime
	default:
		if bound := podstate.Condition(pod, corev1.PodScheduled); bound != nil {
			since = bound.LastTransitionTime
		}
	}
	if left := since.Add(unreadyTimeout).Sub(now); left > 0 {
		return podstate.Trouble{RecheckAfter: left}
	}
	if ready == nil {
		return podstate.Trouble{Message: "node " + pod.Spec.NodeName + " has not begun to start it"}
	}
	return podstate.Trouble{Message: whyUnready(pod)}
}

// WhyUnready says in words what a pod waits for.
func WhyUnready(pod *corev1.Pod) string {
	if bound := podstate.Condition(pod, corev1.PodScheduled); bound != nil && bound.Status == corev1.ConditionFalse {
		return "it has no node: " + bound.Message
	}
	if why := whyUnready(pod); why != "" {
		return why
	}
	return "it is being updated"
}

// whyUnready is the wait of a pod on a node; empty for a wait of our own making.
func whyUnready(pod *corev1.Pod) string {
	for i := range pod.Spec.InitContainers {
		if why := waitsForInit(pod, &pod.Spec.InitContainers[i]); why != "" {
			return "init container " + pod.Spec.InitContainers[i].Name + ": " + why
		}
	}
	for i := range pod.Spec.Containers {
		if why := waitsFor(pod, &pod.Spec.Containers[i]); why != "" {
			return "container " + pod.Spec.Containers[i].Name + ": " + why
		}
	}
	for _, gate := range pod.Spec.ReadinessGates {
		condition := podstate.Condition(pod, gate.ConditionType)
		switch {
		case condition != nil && condition.Status == corev1.ConditionTrue:
		case gate.ConditionType == shared.GateInPlaceUpdateReady:
			return ""
		case gate.ConditionType != shared.GateKruisePodReady:
			return fmt.Sprintf("its readiness gate %s is not True", gate.ConditionType)
		default:
			if others := OtherHolders(pod); len(others) > 0 {
				return "it is held out of service by " + describeHolder(others[0])
			}
			return ""
		}
	}
	return "its containers are ready and it is not, as on a node that does not answer"
}

// waitsForInit is why an init container keeps the others, or the pod, from being ready; empty when it does not.
func waitsForInit(pod *corev1.Pod, container *corev1.Container) string {
	status := restart.StatusOf(pod, container.Name)
	switch {
	case status == nil, status.State.Terminated != nil:
		return ""
	case container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways:
		return waitsFor(pod, container)
	case status.State.Running != nil:
		return "it runs, and the containers after it wait for its end"
	default:
		return waitsFor(pod, container)
	}
}

// waitsFor is the progress of an unready container; empty for a ready one.
func waitsFor(pod *corev1.Pod, container *corev1.Container) string {
	status := restart.StatusOf(pod, container.Name)
	switch {
	case status == nil:
		return "the node has not reported it yet"
	case status.Ready:
		return ""
	case status.State.Terminated != nil:
		return "it has ended"
	case status.State.Running == nil && status.State.Waiting != nil && status.State.Waiting.Reason != "":
		return "it has not started yet (" + status.State.Waiting.Reason + ")"
	case status.State.Running == nil:
		return "it has not started yet"
	case status.Started != nil && !*status.Started && container.StartupProbe != nil:
		return "it runs, and its startup probe does not succeed"
	case container.ReadinessProbe != nil:
		return "it runs, and its readiness probe does not succeed"
	default:
		return "it runs and is not ready"
	}
}
