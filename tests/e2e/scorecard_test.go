// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kruise-operator/kruise-operator/tests/framework/images"
)

// TestScorecard runs the scorecard tests of this project as `operator-sdk scorecard` does in a pod: the same program, with the
// committed bundle, and a result in its form.
func TestScorecard(t *testing.T) {
	t.Parallel()
	defaultStorageClass(t)
	program, err := images.Compile(t.Context(), images.Scorecard())
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := filepath.Abs("../../bundle")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"samples-become-ready", "updates-keep-pods"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), program, name, "--bundle="+bundle)
			cmd.Env = append(os.Environ(), "KUBECONFIG="+env.Cluster.AdminKubeconfig())
			var problems bytes.Buffer
			cmd.Stderr = &problems
			output, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, problems.String())
			}
			status := struct {
				Results []struct {
					Name, State, Log string
					Errors           []string
				}
			}{}
			if err := json.Unmarshal(output, &status); err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			if len(status.Results) != 1 || status.Results[0].Name != name || status.Results[0].State != "pass" {
				t.Errorf("the result is\n%s", output)
			}
		})
	}
	t.Run("a test that cannot pass fails", func(t *testing.T) {
		t.Parallel()
		cmd := exec.CommandContext(t.Context(), program, "samples-become-ready", "--bundle="+t.TempDir())
		cmd.Env = append(os.Environ(), "KUBECONFIG="+env.Cluster.AdminKubeconfig())
		output, err := cmd.Output()
		if err != nil || !bytes.Contains(output, []byte(`"state": "fail"`)) {
			t.Errorf("%v\n%s", err, output)
		}
	})
}
