// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics of the features. Labels come from small fixed sets, never from objects.
type Metrics struct {
	Pulls         *prometheus.CounterVec
	PullDuration  prometheus.Histogram
	PullsInFlight prometheus.Gauge
	Restarts      *prometheus.CounterVec
	Probes        *prometheus.HistogramVec
}

// NewMetrics returns the metrics, registered with registry.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	with := promauto.With(registry)
	return &Metrics{
		Pulls: with.NewCounterVec(prometheus.CounterOpts{
			Name: "kruise_daemon_pulls_total", Help: "Images that were asked for, after all tries: pulled, present (the image was there already), or failed.",
		}, []string{"result"}),
		PullDuration: with.NewHistogram(prometheus.HistogramOpts{
			Name: "kruise_daemon_pull_duration_seconds", Help: "How long pulling an image took, all tries together, without the time in the queue.",
			Buckets: []float64{.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800},
		}),
		PullsInFlight: with.NewGauge(prometheus.GaugeOpts{
			Name: "kruise_daemon_pulls_in_flight", Help: "Images that are being pulled, or wait for their next try; at most --max-pulls.",
		}),
		Restarts: with.NewCounterVec(prometheus.CounterOpts{
			Name: "kruise_daemon_container_restarts_total", Help: "Containers that were stopped to be started again, for a request (ContainerRecreateRequest) or for variables that changed (environment); result is ok or failed.",
		}, []string{"reason", "result"}),
		Probes: with.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kruise_daemon_probe_duration_seconds", Help: "How long tries of probes took; handler is exec, httpGet or tcpSocket, result is success, failure or error.",
			Buckets: []float64{0.01, 0.05, 0.1, 0.5, 1, 5, 10},
		}, []string{"handler", "result"}),
	}
}
