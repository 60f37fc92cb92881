// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
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
	registry := prometheus.NewRegistry()
	own, err := metrics.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	descriptions := make(chan *prometheus.Desc, 100)
	own.Actions.Describe(descriptions)
	own.StaleViews.Describe(descriptions)
	close(descriptions)
	for description := range descriptions {
		_, rest, _ := strings.Cut(description.String(), `fqName: "`)
		name, _, _ := strings.Cut(rest, `"`)
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/operations/metrics.md does not name %s", name)
		}
	}
}
