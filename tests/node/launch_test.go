// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
)

// TestContainersStartInOrder: the kubelet creates a container only when the ones of higher
// priority are ready.
func TestContainersStartInOrder(t *testing.T) {
	n := onNode(t)
	seen := follow(t, n)
	set := guestbook(1)
	set.Spec.Template.Annotations = map[string]string{shared.AnnotationLaunchPriority: shared.LaunchInOrder}
	set.Spec.Template.Spec.Containers[0].ReadinessProbe.InitialDelaySeconds = 4
	is := start(t, n, set)[0]
	all := seen.of(n, n.Pod(is.Name))
	waits, _ := first(t, all, "the second container waits", func(pod *corev1.Pod) bool {
		waiting := status(pod, "other").State.Waiting
		return waiting != nil && waiting.Reason == "CreateContainerConfigError"
	})
	ready, _ := first(t, all, "the first container is ready", func(pod *corev1.Pod) bool { return status(pod, "web").Ready })
	begun, _ := first(t, all, "the second container has begun", func(pod *corev1.Pod) bool { return status(pod, "other").ContainerID != "" })
	if begun.at.Before(ready.at) || !waits.at.Before(ready.at) {
		t.Errorf("it waits %s and begins %s after the first one is ready", seconds(waits.at.Sub(ready.at)), seconds(begun.at.Sub(ready.at)))
	}
	if started := status(begun.pod, "other").State.Running; started != nil && started.StartedAt.Add(time.Second).Before(ready.pod.CreationTimestamp.Add(4*time.Second)) {
		t.Errorf("it runs since %s, and the first probe came after four seconds", started.StartedAt)
	}
	done, _ := first(t, all, "the pod is marked", launch.Completed)
	t.Logf("measured: ready after %s, marked %s later, the next container %s later", seconds(ready.at.Sub(all[0].at)), seconds(done.at.Sub(ready.at)),
		seconds(begun.at.Sub(ready.at)))
}
