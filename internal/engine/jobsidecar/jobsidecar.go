// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package jobsidecar reads the marks of sidecars to stop after the main containers of their pod.
// The sidecar terminator stops them; other controllers do not change the containers of ending pods.
package jobsidecar

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Variables in the environment of a container, as its marks. Only literal values count.
const (
	// EnvTerminate with the value true marks a sidecar for the daemon of its node.
	EnvTerminate = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT"
	// EnvTerminateImage marks a sidecar on a virtual node. Its value is an image with an immediate
	// end.
	EnvTerminateImage = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE"
	// EnvIgnoreExitCode with the value true, beside EnvTerminate, keeps the sidecar's exit code from the result of the pod.
	EnvIgnoreExitCode = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE"
)

// Is recognizes a sidecar; every other container is a main one.
func Is(c *corev1.Container) bool { return ByDaemon(c) || Image(c) != "" }

// ByDaemon says that the daemon of the node stops the container; elsewhere on virtual nodes.
func ByDaemon(c *corev1.Container) bool { return strings.EqualFold(literal(c, EnvTerminate), "true") }

// Image ends the container on a virtual node; empty without one.
func Image(c *corev1.Container) string { return literal(c, EnvTerminateImage) }

// Ignored says that the pod's result does not depend on the exit code of the container.
func Ignored(c *corev1.Container) bool {
	return ByDaemon(c) && strings.EqualFold(literal(c, EnvIgnoreExitCode), "true")
}

func literal(c *corev1.Container, name string) string {
	for i := range c.Env {
		if c.Env[i].Name == name && c.Env[i].ValueFrom == nil {
			return c.Env[i].Value
		}
	}
	return ""
}

// HasSidecars is a pod with sidecars to stop, whatever their state.
func HasSidecars(pod *corev1.Pod) bool {
	ends := pod.Spec.RestartPolicy == corev1.RestartPolicyNever || pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
	return ends && slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return Is(&c) })
}

// MainDone is a pod with sidecars and finished main containers, under OnFailure with code 0:
// nothing is left but to stop the sidecars. A pod of sidecars alone is done as soon as it runs.
func MainDone(pod *corev1.Pod) bool {
	if !HasSidecars(pod) || pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "" ||
		len(pod.Status.ContainerStatuses) != len(pod.Spec.Containers) {
		return false
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if Is(c) {
			continue
		}
		ended := Terminated(pod, c.Name)
		if ended == nil || pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && ended.ExitCode != 0 {
			return false
		}
	}
	return true
}

// Terminated is how a container has ended; nil while it has not.
func Terminated(pod *corev1.Pod, name string) *corev1.ContainerStateTerminated {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == name {
			return pod.Status.ContainerStatuses[i].State.Terminated
		}
	}
	return nil
}
