// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster

import (
	"context"
	"errors"
	"os"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode"
)

// RequireVariable names the environment variable that, when not empty, makes StartForTest fail instead of skip.
const RequireVariable = "KRUISE_REQUIRE_CLUSTER"

// TB is what StartForTest needs of *testing.T, *testing.B or GinkgoT().
type TB interface {
	Helper()
	Cleanup(func())
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// StartForTest starts a cluster that is stopped when the test ends. A component that ended by itself fails the test. When
// the programs cannot be built here, or real nodes cannot run here, the test is skipped and says why, or fails if
// $KRUISE_REQUIRE_CLUSTER is set, as it should be wherever results count. Progress goes to standard error unless the options say otherwise.
func StartForTest(tb TB, options Options) *Cluster {
	tb.Helper()
	if options.Progress == nil {
		options.Progress = os.Stderr
	}
	c, err := Start(tb.Context(), options)
	var unavailable *realnode.UnavailableError
	if (errors.Is(err, binaries.ErrBuild) || errors.As(err, &unavailable)) && os.Getenv(RequireVariable) == "" {
		tb.Skipf("skipped, no cluster: %v", err)
	}
	if err != nil {
		tb.Fatalf("%v", err)
	}
	tb.Cleanup(func() {
		if err := c.Exited(); err != nil {
			tb.Errorf("a component of the cluster failed: %v", err)
		}
		if err := c.Stop(); err != nil {
			tb.Errorf("%v", err)
		}
	})
	return c
}
