// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
	"github.com/kruise-operator/kruise-operator/internal/testutil/metricstest"
)

func TestEveryFlagAndGateIsDocumented(t *testing.T) {
	page, err := os.ReadFile("docs/operations/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	run, _, err := command().Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	run.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "help" && !strings.Contains(string(page), "`--"+flag.Name+"`") {
			t.Errorf("docs/operations/configuration.md does not name the flag --%s", flag.Name)
		}
	})
	for _, gate := range features.Known() {
		want := "| `" + string(gate.Name) + "` | "
		if gate.Default {
			want += "true"
		} else {
			want += "false"
		}
		if !strings.Contains(string(page), want) {
			t.Errorf("docs/operations/configuration.md does not have the row %q", want)
		}
	}
}

func TestEveryMetricIsDocumented(t *testing.T) {
	page, err := os.ReadFile("docs/operations/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(documentedMetrics(t, string(page))) == 0 {
		t.Fatal("no metric was registered")
	}
}

// A dashboard made for OpenKruise shows nothing where a metric is missing, so the page has to say which are.
func TestTheTableOfMetricsOfOpenKruiseIsTrue(t *testing.T) {
	page, err := os.ReadFile("docs/operations/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| Metric of OpenKruise |")
	table, _, _ = strings.Cut(table, "\n\n")
	registered := documentedMetrics(t, string(page))
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

// documentedMetrics are the names of the operator's own metrics, which the page has to have.
func documentedMetrics(t *testing.T, page string) map[string]bool {
	t.Helper()
	return metricstest.Documented(t, page, func(r prometheus.Registerer) error {
		_, err := metrics.New(r)
		return err
	})
}
