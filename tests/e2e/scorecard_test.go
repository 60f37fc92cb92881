// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"testing"

	"github.com/kruise-operator/kruise-operator/tests/framework/scorecard"
)

// TestScorecard runs this project's scorecard tests that can share a cluster: the same
// program as in a pod, with the committed bundle. tests/integration/operatorconfig runs the
// one changing the operator, `make scorecard` all of them in pods.
func TestScorecard(t *testing.T) {
	t.Parallel()
	defaultStorageClass(t)
	for _, name := range []string{"samples-become-ready", "updates-keep-pods"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			samples.RLock()
			defer samples.RUnlock()
			result, err := scorecard.Process(t.Context(), env.Cluster, name, "../../bundle")
			if err != nil {
				t.Fatal(err)
			}
			if result.State != "pass" {
				t.Errorf("%s:\n%s", result.State, result)
			}
		})
	}
	t.Run("a test that cannot pass fails", func(t *testing.T) {
		t.Parallel()
		result, err := scorecard.Process(t.Context(), env.Cluster, "samples-become-ready", t.TempDir())
		if err != nil || result.State != "fail" {
			t.Errorf("%+v, %v", result, err)
		}
	})
}
