// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// addMetricsServer serves the metrics of the process while the manager runs. The server of controller-runtime would also show the metrics of controllers
// that were switched off since the process started, because its registry keeps them.
func addMetricsServer(mgr ctrl.Manager, c *config.Config) error {
	if c.MetricsAddress == "0" {
		return nil
	}
	disabled := sets.New[string]()
	for _, kind := range off(c) {
		disabled.Insert(controllers.NameOf(kind))
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(without(ctrlmetrics.Registry, disabled), promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	// The limits are those of controller-runtime.
	server := &http.Server{Addr: c.MetricsAddress, Handler: mux, MaxHeaderBytes: 1 << 20, IdleTimeout: 90 * time.Second, ReadHeaderTimeout: 32 * time.Second}
	if err := mgr.Add(&ctrlmanager.Server{Name: "metrics", Server: server, ShutdownTimeout: ptr.To(time.Second)}); err != nil {
		return fmt.Errorf("serving metrics: %w", err)
	}
	return nil
}

// addLeaderMetric adds a runnable that sets the metric which says whether this replica leads.
func addLeaderMetric(mgr ctrl.Manager, leads prometheus.Gauge) error {
	// A runnable that does not say otherwise runs only on the leader.
	err := mgr.Add(ctrlmanager.RunnableFunc(func(ctx context.Context) error {
		leads.Set(1)
		<-ctx.Done()
		leads.Set(0)
		return nil
	}))
	if err != nil {
		return fmt.Errorf("adding the metric of the leader: %w", err)
	}
	return nil
}

// without leaves out the series of the disabled controllers, found by their label: reconciles and work queues.
func without(all prometheus.Gatherer, disabled sets.Set[string]) prometheus.GathererFunc {
	return func() ([]*dto.MetricFamily, error) {
		families, err := all.Gather()
		kept := families[:0]
		for _, family := range families {
			var series []*dto.Metric
			for _, metric := range family.GetMetric() {
				if !isOf(metric, disabled) {
					series = append(series, metric)
				}
			}
			if family.Metric = series; len(series) > 0 {
				kept = append(kept, family)
			}
		}
		return kept, err
	}
}

func isOf(metric *dto.Metric, disabled sets.Set[string]) bool {
	for _, label := range metric.GetLabel() {
		if (label.GetName() == "controller" || label.GetName() == "name") && disabled.Has(label.GetValue()) {
			return true
		}
	}
	return false
}
