// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode"
)

// RequireVariable names the environment variable that, when not empty, makes tests without
// their cluster fail instead of skip. So does CI, set by continuous integration.
const RequireVariable = "KRUISE_REQUIRE_CLUSTER"

// Required is true if a test without its cluster has to fail, whatever the reason.
func Required() bool {
	ci, err := strconv.ParseBool(os.Getenv("CI"))
	return os.Getenv(RequireVariable) != "" || err == nil && ci
}

// TB is StartForTest's part of *testing.T, *testing.B or GinkgoT().
type TB interface {
	Helper()
	Cleanup(func())
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// StartForTest starts a cluster for the duration of a test. A component ending by itself
// fails the test. If programs cannot be built here, or real nodes cannot run, the test is
// skipped with the reason, or fails if [Required]. Progress goes to standard error by
// default.
func StartForTest(tb TB, options Options) *Cluster {
	tb.Helper()
	c, err := startForTests(tb.Context(), options)
	skipOrFail(tb, err)
	tb.Cleanup(func() {
		if err := endForTests(c); err != nil {
			tb.Errorf("%v", err)
		}
	})
	return c
}

// Shared is a cluster several tests of a package use together, each for its own objects.
// The first use starts it. TestMain stops it.
type Shared struct {
	// Options are the cluster's.
	Options Options

	once    sync.Once
	cluster *Cluster
	err     error
}

// ForTest returns the cluster. Where it cannot start, the test is skipped or fails, as by StartForTest.
func (s *Shared) ForTest(tb TB) *Cluster {
	tb.Helper()
	s.once.Do(func() { s.cluster, s.err = startForTests(context.WithoutCancel(tb.Context()), s.Options) })
	skipOrFail(tb, s.err)
	return s.cluster
}

// Stop ends the cluster, if started. Its error names failed components and leftovers.
func (s *Shared) Stop() error {
	s.once.Do(func() {})
	if s.cluster == nil {
		return nil
	}
	return endForTests(s.cluster)
}

func startForTests(ctx context.Context, options Options) (*Cluster, error) {
	if options.Progress == nil {
		options.Progress = os.Stderr
	}
	return Start(ctx, options)
}

func endForTests(c *Cluster) error {
	err := c.Exited()
	if err != nil {
		err = fmt.Errorf("a component of the cluster failed: %w", err)
	}
	return errors.Join(err, c.Stop())
}

func skipOrFail(tb TB, err error) {
	tb.Helper()
	var unavailable *realnode.UnavailableError
	if (errors.Is(err, binaries.ErrBuild) || errors.As(err, &unavailable)) && !Required() {
		tb.Skipf("skipped, no cluster: %v", err)
	}
	if err != nil {
		tb.Fatalf("%v", err)
	}
}
