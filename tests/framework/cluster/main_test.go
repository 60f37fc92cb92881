// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
)

// Shared clusters; tests change only objects of their own.
var (
	controlPlane = &cluster.Shared{}
	apiServer    = &cluster.Shared{Options: cluster.Options{ControlPlane: cluster.APIServerOnly}}
)

// endingVariable makes this test binary start a cluster and then end in the given way.
const endingVariable = "KRUISE_TEST_ENDING"

// The ways for the process to end.
const (
	endsBySignal = "signal"
	endsByPanic  = "panic"
)

func TestMain(m *testing.M) {
	ending := os.Getenv(endingVariable)
	if ending == "" {
		os.Exit(runTests(m))
	}
	if err := holdCluster(ending); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runTests runs the tests and stops their shared clusters.
func runTests(m *testing.M) int {
	code := m.Run()
	if err := errors.Join(controlPlane.Stop(), apiServer.Stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// holdCluster starts a cluster, prints its folder, and ends only when standard input does.
func holdCluster(ending string) error {
	c, err := cluster.Start(context.Background(), cluster.Options{ControlPlane: cluster.APIServerOnly})
	if err != nil {
		return err
	}
	// A program that leaves its process group, like a container runtime's shim, escapes the
	// kernel's parent-death signal.
	if _, err := c.StartProcess("escaping", "/bin/sh", []string{"-c", "setsid sleep 600 & wait"}, nil); err != nil {
		return err
	}
	fmt.Println(c.Dir())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	if ending == endsByPanic {
		panic("a test failed badly")
	}
	return errors.New("standard input ended")
}
