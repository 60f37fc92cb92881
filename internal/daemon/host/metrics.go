// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Results of pulls, as metrics have them.
const (
	// Pulled: the runtime has pulled the image. Present: it had it already. Failed: all tries have failed.
	Pulled  = "pulled"
	Present = "present"
	Failed  = "failed"
)

// Metrics of the features. Labels come from small fixed sets, never from objects. Nil
// counts nothing.
type Metrics struct {
	pulls    *prometheus.CounterVec
	duration prometheus.Histogram
	inFlight prometheus.Gauge
	restarts *prometheus.CounterVec
	probes   *prometheus.HistogramVec
}

// NewMetrics returns the metrics, registered with registry. Where they are registered already, these are returned.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		pulls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kruise_daemon_pulls_total", Help: "Images that were asked for, after all tries: pulled, present (the image was there already), or failed.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kruise_daemon_pull_duration_seconds", Help: "How long pulling an image took, all tries together, without the time in the queue.",
			Buckets: []float64{.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800},
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kruise_daemon_pulls_in_flight", Help: "Images that are being pulled, or wait for their next try; at most --max-pulls.",
		}),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kruise_daemon_container_restarts_total", Help: "Containers that were stopped to be started again, for a request (ContainerRecreateRequest) or for variables that changed (environment); result is ok or failed.",
		}, []string{"reason", "result"}),
		probes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kruise_daemon_probe_duration_seconds", Help: "How long tries of probes took; handler is exec, httpGet or tcpSocket, result is success, failure or error.",
			Buckets: []float64{0.01, 0.05, 0.1, 0.5, 1, 5, 10},
		}, []string{"handler", "result"}),
	}
	err := errors.Join(
		register(registry, &m.pulls), register(registry, &m.duration), register(registry, &m.inFlight), register(registry, &m.restarts), register(registry, &m.probes),
	)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of the daemon: %w", err)
	}
	return m, nil
}

// register registers a collector, or returns the registered one.
func register[C prometheus.Collector](registry prometheus.Registerer, c *C) error {
	err := registry.Register(*c)
	var known prometheus.AlreadyRegisteredError
	if !errors.As(err, &known) {
		return err
	}
	if same, ok := known.ExistingCollector.(C); ok {
		*c = same
		return nil
	}
	return err
}

// PullBegins counts an image as being pulled until the returned function is called.
func (m *Metrics) PullBegins() (ends func()) {
	if m == nil {
		return func() {}
	}
	m.inFlight.Inc()
	return m.inFlight.Dec
}

// PullEnded counts the result of an image after all tries.
func (m *Metrics) PullEnded(result string, took time.Duration) {
	if m == nil {
		return
	}
	m.pulls.WithLabelValues(result).Inc()
	if result == Pulled {
		m.duration.Observe(took.Seconds())
	}
}

// Stopped counts a stop for a reason, done or failed.
func (m *Metrics) Stopped(reason string, err error) {
	if m == nil {
		return
	}
	result := "ok"
	if err != nil {
		result = Failed
	}
	m.restarts.WithLabelValues(reason, result).Inc()
}

// Probed counts a try of a probe.
func (m *Metrics) Probed(handler, result string, took time.Duration) {
	if m == nil {
		return
	}
	m.probes.WithLabelValues(handler, result).Observe(took.Seconds())
}
