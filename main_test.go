// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// A dashboard made for OpenKruise shows nothing where a metric is missing, so the page has to say which are.
func TestTheTableOfMetricsOfOpenKruiseIsTrue(t *testing.T) {
	page, err := os.ReadFile("docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| Metric of OpenKruise |")
	table, _, _ = strings.Cut(table, "\n\n")
	registered := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(kruise_[a-z_]+)` \\| (?:counter|gauge|histogram) ").FindAllStringSubmatch(string(page), -1) {
		registered[row[1]] = true
	}
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (served|gone)(.*)$").FindAllStringSubmatch(table, -1) {
		name, served := row[1], row[2] == "served"
		listed[name] = true
		if served != registered[name] {
			t.Errorf("%s: the page says %s, registered is %v", name, row[2], registered[name])
		}
		for _, instead := range regexp.MustCompile("`(kruise_[a-z_]+)`").FindAllStringSubmatch(row[3], -1) {
			if !registered[instead[1]] {
				t.Errorf("%s: the page names %s instead, which is not registered", name, instead[1])
			}
		}
	}
	// Those that OpenKruise 1.9 documents.
	for _, name := range []string{
		"kruise_manager_is_leader", "pod_unavailable_budget", "cloneset_scale_expectation_leakage", "namespace_deletion_protection", "crd_deletion_protection",
		"workload_deletion_protection",
	} {
		if !listed[name] {
			t.Errorf("the table has no row for %s", name)
		}
	}
}
