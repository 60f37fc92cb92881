// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	_ "sigs.k8s.io/controller-runtime/pkg/webhook" // registers the metrics of webhooks and controllers

	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
)

// TestEveryMetricExists: a panel of an unserved metric stays empty, and looks like good
// news.
func TestEveryMetricExists(t *testing.T) {
	known := registered(t)
	named := regexp.MustCompile(`([a-z_]+)\{`)
	own := 0
	for _, r := range rows() {
		for _, p := range r.panels {
			for _, q := range p.queries {
				found := named.FindAllStringSubmatch(q.expr, -1)
				if len(found) == 0 {
					t.Errorf("%s: %s names no metric", p.title, q.expr)
				}
				for _, name := range found {
					if metric := strings.TrimSuffix(name[1], "_bucket"); !known[metric] {
						t.Errorf("%s: there is no metric %s", p.title, metric)
					}
					if strings.HasPrefix(name[1], "kruise_") {
						own++
					}
				}
			}
		}
	}
	if own < 10 {
		t.Errorf("only %d metrics of our own are shown", own)
	}
}

// registered are the names of all metrics of the operator and the node daemon, and up,
// added by Prometheus.
func registered(t *testing.T) map[string]bool {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics.New(registry)
	host.NewMetrics(registry)
	cri.New(nil, registry)
	descriptions := make(chan *prometheus.Desc, 1000)
	registry.Describe(descriptions)
	ctrlmetrics.Registry.(prometheus.Collector).Describe(descriptions)
	close(descriptions)
	names := map[string]bool{"up": true}
	for description := range descriptions {
		_, rest, _ := strings.Cut(description.String(), `fqName: "`)
		name, _, _ := strings.Cut(rest, `"`)
		names[name] = true
	}
	return names
}
