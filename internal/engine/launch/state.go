// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Container is the state of one container at the barrier of its pod, now or before.
type Container struct {
	Name     string
	Priority int
	// Key is its key of the barrier.
	Key string
	// Ready: the container is ready now.
	Ready bool
	// Created: there has been one, so its priority was released.
	Created bool
	// Stuck: the kubelet cannot make it for want of something to read, such as the key of the
	// barrier.
	Stuck bool
	// Status is the kubelet's; nil before it says anything. Read-only.
	Status *corev1.ContainerStatus
}

// Containers are a pod's at its barrier, now or before, the highest priority first.
func Containers(pod *corev1.Pod) []Container {
	var all []Container
	for i := range pod.Spec.Containers {
		key := keyAt(pod.Name, &pod.Spec.Containers[i])
		priority, ok := PriorityOfKey(key)
		if !ok {
			continue
		}
		c := Container{Name: pod.Spec.Containers[i].Name, Priority: priority, Key: key}
		at := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
		if at >= 0 {
			c.Status = &pod.Status.ContainerStatuses[at]
			c.Ready = c.Status.Ready
			c.Created = c.Status.ContainerID != "" || c.Status.RestartCount > 0 || c.Status.LastTerminationState.Terminated != nil
			c.Stuck = c.Status.State.Waiting != nil && c.Status.State.Waiting.Reason == "CreateContainerConfigError"
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b Container) int { return b.Priority - a.Priority })
	return all
}

// Due is the lowest priority to release: every container of a higher one is ready. False without
// containers.
func Due(containers []Container) (lowest int, ok bool) {
	for i, c := range containers {
		if i > 0 && c.Priority < containers[i-1].Priority && slices.ContainsFunc(containers[:i], func(c Container) bool { return !c.Ready }) {
			break
		}
		lowest, ok = c.Priority, true
	}
	return lowest, ok
}

// HeldBy names the containers to be ready before this one may start; nil when its turn has come, or
// it has been there.
func HeldBy(pod *corev1.Pod, container string) []string {
	if Completed(pod) {
		return nil
	}
	containers := Containers(pod)
	at := slices.IndexFunc(containers, func(c Container) bool { return c.Name == container })
	if at < 0 || containers[at].Created {
		return nil
	}
	var names []string
	for _, c := range containers[:at] {
		if c.Priority > containers[at].Priority && !c.Ready {
			names = append(names, c.Name)
		}
	}
	return names
}
