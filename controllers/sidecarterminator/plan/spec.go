// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// Variables in the environment of a container that mark it. Only literal values count.
const (
	// EnvTerminate with the value true marks a sidecar that the daemon of its node stops.
	EnvTerminate = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT"
	// EnvTerminateImage marks a sidecar on a virtual node. Its value is an image that ends at once.
	EnvTerminateImage = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE"
	// EnvIgnoreExitCode with the value true, beside EnvTerminate, keeps the sidecar's exit code from the result of the pod.
	EnvIgnoreExitCode = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE"
)

// Concerns says that a pod has sidecars that may have to be stopped, whatever they are at.
func Concerns(pod *corev1.Pod) bool {
	if pod.Spec.RestartPolicy != corev1.RestartPolicyNever && pod.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	for i := range pod.Spec.Containers {
		if isSidecar(&pod.Spec.Containers[i]) {
			return true
		}
	}
	return false
}

func isSidecar(c *corev1.Container) bool { return byDaemon(c) || image(c) != "" }

// byDaemon says that the daemon of the node stops the container; elsewhere on virtual nodes.
func byDaemon(c *corev1.Container) bool { return strings.EqualFold(literal(c, EnvTerminate), "true") }

// image is the one by which the container ends on a virtual node; empty when it has none.
func image(c *corev1.Container) string { return literal(c, EnvTerminateImage) }

// ignored says that the pod's result does not depend on the exit code of the container.
func ignored(c *corev1.Container) bool {
	return byDaemon(c) && strings.EqualFold(literal(c, EnvIgnoreExitCode), "true")
}

func literal(c *corev1.Container, name string) string {
	for i := range c.Env {
		if c.Env[i].Name == name && c.Env[i].ValueFrom == nil {
			return c.Env[i].Value
		}
	}
	return ""
}

// Due says that the main containers of a pod are done and at least one of its sidecars is not. A pod of sidecars alone has no main
// containers, so it is due as soon as it runs.
func Due(pod *corev1.Pod) bool {
	if !Concerns(pod) || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "" ||
		len(pod.Status.ContainerStatuses) != len(pod.Spec.Containers) {
		return false
	}
	sidecars := false
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		ended := terminated(pod, c.Name)
		switch {
		case isSidecar(c):
			sidecars = sidecars || ended == nil
		case ended == nil, pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && ended.ExitCode != 0:
			return false
		}
	}
	return sidecars
}

// taintProvider is the key of the taint by which virtual-kubelet keeps ordinary pods from its nodes.
const taintProvider = "virtual-kubelet.io/provider"

// Virtual says that a node is a virtual one, by its label type or by the taint of virtual-kubelet: no daemon runs on it.
func Virtual(node *corev1.Node) bool {
	if node.Labels[appsv1beta1.LabelNodeType] == appsv1beta1.NodeTypeVirtual {
		return true
	}
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Key == taintProvider {
			return true
		}
	}
	return false
}

// SinceMain is how long before now the last main container of a pod has ended; false when there is none, or one has not.
func SinceMain(pod *corev1.Pod, now time.Time) (time.Duration, bool) {
	var last time.Time
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if isSidecar(c) {
			continue
		}
		ended := terminated(pod, c.Name)
		if ended == nil {
			return 0, false
		}
		if ended.FinishedAt.After(last) {
			last = ended.FinishedAt.Time
		}
	}
	return max(0, now.Sub(last)), !last.IsZero()
}

// terminated is how a container has ended; nil while it has not.
func terminated(pod *corev1.Pod, name string) *corev1.ContainerStateTerminated {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == name {
			return pod.Status.ContainerStatuses[i].State.Terminated
		}
	}
	return nil
}

// outcome is the phase of a pod by its main containers alone.
func outcome(pod *corev1.Pod) corev1.PodPhase {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if ended := terminated(pod, c.Name); !isSidecar(c) && (ended == nil || ended.ExitCode != 0) {
			return corev1.PodFailed
		}
	}
	return corev1.PodSucceeded
}

func over(pod *corev1.Pod) bool { return podstate.Finished(pod) }
