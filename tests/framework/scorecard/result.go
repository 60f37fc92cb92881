// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package scorecard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/images"
)

// Result is a test's own report.
type Result struct {
	Name, State, Log string
	Errors           []string
}

// status is a test's output.
type status struct {
	Results []Result
}

func (r Result) passed() bool { return r.State == "pass" && len(r.Errors) == 0 }

// String returns the errors and the log of the test, a line for each, indented.
func (r Result) String() string {
	var text strings.Builder
	for _, line := range append(r.Errors, strings.Split(strings.TrimSpace(r.Log), "\n")...) {
		if line != "" {
			text.WriteString("    " + line + "\n")
		}
	}
	return text.String()
}

// Process runs one of our own tests as a process beside a cluster with the operator, over
// the bundle in a folder. An error means it could not run; a failure is a result.
func Process(ctx context.Context, c *cluster.Cluster, test, bundle string) (Result, error) {
	program, err := images.Compile(ctx, images.Scorecard())
	if err != nil {
		return Result{}, err
	}
	if bundle, err = filepath.Abs(bundle); err != nil {
		return Result{}, err
	}
	cmd := exec.CommandContext(ctx, program, test, "--bundle="+bundle, "--limit=10m") // beside other suites
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.AdminKubeconfig())
	var problems bytes.Buffer
	cmd.Stderr = &problems
	output, err := cmd.Output()
	if err != nil {
		return Result{}, fmt.Errorf("running the scorecard test %s: %w\n%s", test, err, problems.String())
	}
	printed := status{}
	if err := json.Unmarshal(output, &printed); err != nil {
		return Result{}, fmt.Errorf("reading the result of the scorecard test %s: %w\n%s", test, err, output)
	}
	if len(printed.Results) != 1 || printed.Results[0].Name != test {
		return Result{}, fmt.Errorf("the result of the scorecard test %s is\n%s", test, output)
	}
	return printed.Results[0], nil
}
