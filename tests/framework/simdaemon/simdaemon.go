// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package simdaemon runs the node daemon for simulated nodes: the real one, over a
// container runtime reflecting the pods in the API server.
package simdaemon

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/daemon"
	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// user has the node daemon's role, and nothing else.
const user = "node-daemon-of-tests"

// Run runs the daemon for a node until the test ends. Containers it stops end with the exit
// code.
func Run(t testing.TB, env *environment.Environment, node string, exitCode int32) {
	t.Helper()
	RunWith(t, env, node, &Runtime{Pods: env.Client, Nodes: env.Nodes, ExitCode: exitCode})
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
	mgr, err := daemon.New(config, daemon.Options{Node: node, Namespace: "default", Address: "0", MaxPulls: 1}, runtime, host.NewMetrics(prometheus.NewRegistry()))
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
