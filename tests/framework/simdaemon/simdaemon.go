// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package simdaemon runs the node daemon for simulated nodes: the real one, over a container runtime that knows what the pods of the API
// server say that they run.
package simdaemon

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/daemon"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri/critest"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// Runtime is the container runtime of simulated nodes. What it does not answer for is that of a runtime without anything.
type Runtime struct {
	critest.Runtime
	// Env is where the pods are.
	Env *environment.Environment
	// ExitCode is what containers end with that are stopped.
	ExitCode int32
}

// ListContainers implements cri.Runtime.
func (s *Runtime) ListContainers(ctx context.Context, filter cri.ContainerFilter) ([]cri.Container, error) {
	pods := &corev1.PodList{}
	if err := s.Env.Client.List(ctx, pods); err != nil {
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
		if err := s.Env.Nodes.KillContainer(of.PodNamespace, of.PodName, of.Name, s.ExitCode); err != nil {
			return err
		}
	}
	tick := time.NewTicker(50 * time.Millisecond)
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

// user may do what the role of the node daemon says, and nothing else.
const user = "node-daemon-of-tests"

// Run runs the daemon for a node until the test ends. Containers that it stops end with the exit code.
func Run(t testing.TB, env *environment.Environment, node string, exitCode int32) {
	t.Helper()
	RunWith(t, env, node, &Runtime{Env: env, ExitCode: exitCode})
}

// RunWith runs the daemon for a node, with a runtime, until the test ends.
func RunWith(t testing.TB, env *environment.Environment, node string, runtime *Runtime) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: daemon.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if err := client.IgnoreAlreadyExists(env.Client.Create(t.Context(), binding)); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(env.Cluster.Config())
	config.Impersonate.UserName = user
	mgr, err := daemon.New(config, daemon.Options{Node: node, Namespace: "default", Address: "0", MaxPulls: 1}, runtime)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the daemon of node %s: %v", node, err)
		}
	})
}
