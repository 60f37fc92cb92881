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
	registered := &collectors{}
	if _, err := metrics.New(registered); err != nil {
		t.Fatal(err)
	}
	if len(registered.all) == 0 {
		t.Fatal("no metric was registered")
	}
	descriptions := make(chan *prometheus.Desc, 100)
	for _, collector := range registered.all {
		collector.Describe(descriptions)
	}
	close(descriptions)
	for description := range descriptions {
		_, rest, _ := strings.Cut(description.String(), `fqName: "`)
		name, _, _ := strings.Cut(rest, `"`)
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/operations/metrics.md does not name %s", name)
		}
	}
}

// collectors is a registry that keeps what is registered.
type collectors struct {
	prometheus.Registerer
	all []prometheus.Collector
}

func (c *collectors) Register(collector prometheus.Collector) error {
	c.all = append(c.all, collector)
	return nil
}
