// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
)

// named is how many containers a message names.
const named = 5

// Released is the event's text for a released priority.
func Released(pod *corev1.Pod, priority int) string {
	var start, before []string
	for _, c := range launch.Containers(pod) {
		switch {
		case c.Priority == priority:
			start = append(start, c.Name)
		case c.Priority > priority:
			before = append(before, c.Name)
		}
	}
	text := fmt.Sprintf("Launch priority %d may start: %s", priority, list(start))
	if len(before) > 0 {
		text += "; ready before: " + list(before)
	}
	return text
}

// Waiting describes a pod's wait before more containers may start; empty: none. It includes the lowest released priority.
func Waiting(pod *corev1.Pod) (text string, at int) {
	if pod.DeletionTimestamp != nil || launch.Completed(pod) {
		return "", 0
	}
	containers := launch.Containers(pod)
	due, ok := launch.Due(containers)
	var later, causes []string
	for _, c := range containers {
		switch {
		case c.Priority < due:
			later = append(later, c.Name)
		case !c.Ready:
			causes = append(causes, cause(c))
		}
	}
	if !ok || len(later) == 0 || len(causes) == 0 {
		return "", 0
	}
	return fmt.Sprintf("Containers %s start when these are ready, by their launch priorities: %s", list(later), conditions.First(causes, named, "; ")), due
}

func cause(c launch.Container) string {
	text := fmt.Sprintf("%s (priority %d)", c.Name, c.Priority)
	switch {
	case c.Status == nil:
		return text + " is not started yet"
	case c.Status.State.Terminated != nil && c.Status.State.Terminated.ExitCode == 0, c.Status.State.Running == nil &&
		c.Status.LastTerminationState.Terminated != nil && c.Status.LastTerminationState.Terminated.ExitCode == 0:
		return text + " has ended with code 0, and what runs to its end does not stay ready: make it an init container"
	case c.Status.State.Waiting != nil && c.Status.State.Waiting.Reason != "":
		return text + ": " + c.Status.State.Waiting.Reason
	case c.Status.State.Running != nil:
		return text + " runs and is not ready: see its startup and readiness probes"
	}
	return text
}

func list(names []string) string { return conditions.First(names, named, ", ") }
