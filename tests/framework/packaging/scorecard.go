// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package packaging

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// ScorecardTest is one test of a bundle's configuration.
type ScorecardTest struct {
	Image      string            `json:"image"`
	Entrypoint []string          `json:"entrypoint"`
	Labels     map[string]string `json:"labels"`
}

// ScorecardTests reads the names of a bundle's tests.
func ScorecardTests(bundle string) ([]ScorecardTest, error) {
	config := struct {
		Stages []struct {
			Tests []ScorecardTest `json:"tests"`
		} `json:"stages"`
	}{}
	content, err := os.ReadFile(filepath.Join(bundle, "tests", "scorecard", "config.yaml"))
	if err != nil {
		return nil, fmt.Errorf("reading the scorecard's configuration: %w", err)
	}
	if err := yaml.Unmarshal(content, &config); err != nil {
		return nil, fmt.Errorf("reading the scorecard's configuration: %w", err)
	}
	var tests []ScorecardTest
	for _, stage := range config.Stages {
		for _, test := range stage.Tests {
			if len(test.Entrypoint) != 2 {
				return nil, fmt.Errorf("the scorecard's configuration has a test that runs %q, want a program and the test's name", test.Entrypoint)
			}
			tests = append(tests, test)
		}
	}
	if len(tests) == 0 {
		return nil, errors.New("the scorecard's configuration names no test")
	}
	return tests, nil
}
