// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package metricstest compares metrics with the page that describes them.
package metricstest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Documented fails for each metric that register registers and that has no row in a table of the page, or a row with other labels. A row begins with name,
// type and labels. It returns the names of the metrics.
func Documented(t *testing.T, page string, register func(prometheus.Registerer) error) map[string]bool {
	t.Helper()
	registry := &collectors{}
	if err := register(registry); err != nil {
		t.Fatal(err)
	}
	descriptions := make(chan *prometheus.Desc, 100)
	for _, collector := range registry.all {
		collector.Describe(descriptions)
	}
	close(descriptions)
	parts := regexp.MustCompile(`fqName: "([^"]+)".* variableLabels: \{([^}]*)\}`)
	names := map[string]bool{}
	for description := range descriptions {
		found := parts.FindStringSubmatch(description.String())
		if found == nil {
			t.Fatalf("cannot read %s", description)
		}
		name, labels := found[1], found[2]
		names[name] = true
		row := regexp.MustCompile("(?m)^\\| `" + name + "` \\| [a-z]+ \\| ([^|]*)\\|").FindStringSubmatch(page)
		if row == nil {
			t.Errorf("no table has a row for %s", name)
			continue
		}
		if said := strings.NewReplacer("`", "", " ", "").Replace(row[1]); said != labels {
			t.Errorf("%s has the labels %q, and its row says %q", name, labels, said)
		}
	}
	return names
}

// collectors is a registry that keeps what is registered.
type collectors struct {
	prometheus.Registerer
	all []prometheus.Collector
}

// Register implements prometheus.Registerer.
func (c *collectors) Register(collector prometheus.Collector) error {
	c.all = append(c.all, collector)
	return nil
}
