// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
)

// RuntimeOf returns the runtime in the ID of the pod's newest container; for a pod without
// any, NodeRuntime's.
func (h Host) RuntimeOf(ctx context.Context, pods client.Reader, pod *corev1.Pod) cri.Runtime {
	var newest instance
	newest.of(pod, false)
	if newest.runtime == "" {
		return h.NodeRuntime(ctx, pods)
	}
	return h.Runtime.Of(newest.runtime)
}

// NodeRuntime returns the kubelet's runtime, from the ID of the newest running container:
// pods cannot use images in another one. On an idle node it is the first to answer.
func (h Host) NodeRuntime(ctx context.Context, pods client.Reader) cri.Runtime {
	var all corev1.PodList
	if err := pods.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Pods of the node cannot be listed; the first container runtime is used", "err", err.Error())
		return h.Runtime
	}
	var newest instance
	for i := range all.Items {
		newest.of(&all.Items[i], true)
	}
	return h.Runtime.Of(newest.runtime)
}

// instance is a container's start, and the runtime in its ID.
type instance struct {
	runtime string
	started time.Time
}

// of keeps the pod's newest container if it is newer.
func (n *instance) of(pod *corev1.Pod, running bool) {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range statuses {
			status := &statuses[i]
			name, _, found := strings.Cut(status.ContainerID, "://")
			if !found || running && status.State.Running == nil {
				continue
			}
			var started time.Time
			switch {
			case status.State.Running != nil:
				started = status.State.Running.StartedAt.Time
			case status.State.Terminated != nil:
				started = status.State.Terminated.StartedAt.Time
			}
			if n.runtime == "" || started.After(n.started) {
				n.runtime, n.started = name, started
			}
		}
	}
}
