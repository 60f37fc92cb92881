// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Count sets gauges, each with its labels.
type Count func(set func(value float64, labels ...string))

// Scraped are gauges that are counted when somebody scrapes. A kind that is off sets none.
type Scraped struct {
	desc   *prometheus.Desc
	mutex  sync.Mutex
	counts []Count
}

// Add has more counted.
func (s *Scraped) Add(count Count) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.counts = append(s.counts, count)
}

// Describe implements prometheus.Collector.
func (s *Scraped) Describe(to chan<- *prometheus.Desc) { to <- s.desc }

// Collect implements prometheus.Collector.
func (s *Scraped) Collect(to chan<- prometheus.Metric) {
	s.mutex.Lock()
	counts := slices.Clone(s.counts)
	s.mutex.Unlock()
	for _, count := range counts {
		count(func(value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, value, labels...)
		})
	}
}
