// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package simdaemon

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri/critest"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
)

// Runtime is the simulated nodes' container runtime. Otherwise it answers as an empty one.
type Runtime struct {
	critest.Runtime
	// Pods reads the pods with their containers.
	Pods client.Reader
	// Nodes are where they run.
	Nodes *simnode.Nodes
	// ExitCode is the stopped containers'.
	ExitCode int32
}

// ListContainers implements cri.Runtime.
func (s *Runtime) ListContainers(ctx context.Context, filter cri.ContainerFilter) ([]cri.Container, error) {
	pods := &corev1.PodList{}
	if err := s.Pods.List(ctx, pods, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var all []cri.Container
	for i := range pods.Items {
		pod := &pods.Items[i]
		for _, status := range pod.Status.ContainerStatuses {
			_, id, started := strings.Cut(status.ContainerID, "://")
			if !started || filter.PodUID != "" && filter.PodUID != string(pod.UID) || filter.ID != "" && filter.ID != id {
				continue
			}
			container := cri.Container{
				ID: id, Name: status.Name, Attempt: uint32(status.RestartCount), State: cri.Exited,
				PodNamespace: pod.Namespace, PodName: pod.Name, PodUID: string(pod.UID),
			}
			if status.State.Running != nil {
				container.State, container.Created = cri.Running, status.State.Running.StartedAt.Time
			}
			all = append(all, container)
		}
	}
	return all, nil
}

// ContainerStatus implements cri.Runtime.
func (s *Runtime) ContainerStatus(ctx context.Context, id string) (cri.ContainerStatus, error) {
	all, err := s.ListContainers(ctx, cri.ContainerFilter{ID: id})
	if err != nil {
		return cri.ContainerStatus{}, err
	}
	if len(all) == 0 {
		return cri.ContainerStatus{}, cri.ErrNotFound
	}
	return cri.ContainerStatus{Container: all[0], Started: all[0].Created}, nil
}

// StopContainer implements cri.Runtime: it returns when the container has ended.
func (s *Runtime) StopContainer(ctx context.Context, id string, _ time.Duration) error {
	of, err := s.ContainerStatus(ctx, id)
	if err != nil {
		return err
	}
	if of.State == cri.Running {
		if err := s.Nodes.KillContainer(of.PodNamespace, of.PodName, of.Name, s.ExitCode); err != nil {
			return err
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		is, err := s.ContainerStatus(ctx, id)
		if errors.Is(err, cri.ErrNotFound) || err == nil && is.State != cri.Running {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Exec implements cri.Runtime: OnExec answers for commands. Without it each succeeds and says nothing.
func (s *Runtime) Exec(ctx context.Context, id string, command []string, _ time.Duration) (cri.ExecResult, error) {
	of, err := s.ContainerStatus(ctx, id)
	if err != nil || s.OnExec == nil {
		return cri.ExecResult{}, err
	}
	return s.OnExec(ctx, of.Container, command)
}
