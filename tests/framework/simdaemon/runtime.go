// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package simdaemon

import (
	"context"
	"errors"
	"slices"
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
	// Answer answers for commands in the containers of a pod.
	Answer func(pod string, command []string) (cri.ExecResult, error)
	// ExitCode is the stopped containers'.
	ExitCode int32
}

// container is a container and its pod.
type container struct {
	cri.Container
	pod *corev1.Pod
}

// Of implements cri.Runtime: it is the only one.
func (s *Runtime) Of(string) cri.Runtime { return s }

// ListContainers implements cri.Runtime.
func (s *Runtime) ListContainers(ctx context.Context, podUID string) ([]cri.Container, error) {
	containers, err := s.containers(ctx)
	var all []cri.Container
	for _, of := range containers {
		if string(of.pod.UID) == podUID {
			all = append(all, of.Container)
		}
	}
	return all, err
}

func (s *Runtime) containers(ctx context.Context) ([]container, error) {
	pods := &corev1.PodList{}
	if err := s.Pods.List(ctx, pods, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var all []container
	for i := range pods.Items {
		pod := &pods.Items[i]
		for _, status := range pod.Status.ContainerStatuses {
			_, id, started := strings.Cut(status.ContainerID, "://")
			if !started {
				continue
			}
			of := container{cri.Container{ID: id, Name: status.Name, Attempt: uint32(status.RestartCount), Exited: true}, pod}
			if status.State.Running != nil {
				of.Running, of.Exited, of.Created = true, false, status.State.Running.StartedAt.Time
			}
			all = append(all, of)
		}
	}
	return all, nil
}

func (s *Runtime) find(ctx context.Context, id string) (container, error) {
	all, err := s.containers(ctx)
	if err != nil {
		return container{}, err
	}
	at := slices.IndexFunc(all, func(of container) bool { return of.ID == id })
	if at < 0 {
		return container{}, cri.ErrNotFound
	}
	return all[at], nil
}

// ContainerStatus implements cri.Runtime.
func (s *Runtime) ContainerStatus(ctx context.Context, id string) (cri.ContainerStatus, error) {
	of, err := s.find(ctx, id)
	return cri.ContainerStatus{Container: of.Container, Started: of.Created}, err
}

// StopContainer implements cri.Runtime: it returns when the container has ended.
func (s *Runtime) StopContainer(ctx context.Context, id string, _ time.Duration) error {
	of, err := s.find(ctx, id)
	if err != nil {
		return err
	}
	if of.Running {
		if err := s.Nodes.KillContainer(of.pod.Namespace, of.pod.Name, of.Name, s.ExitCode); err != nil {
			return err
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		is, err := s.ContainerStatus(ctx, id)
		if errors.Is(err, cri.ErrNotFound) || err == nil && !is.Running {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Exec implements cri.Runtime: Answer answers for commands. Without it each succeeds and says nothing.
func (s *Runtime) Exec(ctx context.Context, id string, command []string, _ time.Duration) (cri.ExecResult, error) {
	of, err := s.find(ctx, id)
	if err != nil || s.Answer == nil {
		return cri.ExecResult{}, err
	}
	return s.Answer(of.pod.Name, command)
}
