// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"iter"
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Objects counts the objects of each kind by state and reason. It counts when it is asked, and keeps nothing.
type Objects struct {
	desc  *prometheus.Desc
	mutex sync.Mutex
	kinds map[string]iter.Seq2[string, string]
}

func newObjects() *Objects {
	return &Objects{
		desc: prometheus.NewDesc("kruise_objects", "Objects by kind, state (Reconciling, Stalled or Settled) and the reason that their condition gives.",
			[]string{"kind", "state", "reason"}, nil),
		kinds: map[string]iter.Seq2[string, string]{},
	}
}

// Count has the objects of a kind counted: states yields state and reason of each.
func (o *Objects) Count(kind string, states iter.Seq2[string, string]) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.kinds[kind] = states
}

// Describe implements [prometheus.Collector].
func (o *Objects) Describe(to chan<- *prometheus.Desc) { to <- o.desc }

// Collect implements [prometheus.Collector].
func (o *Objects) Collect(to chan<- prometheus.Metric) {
	o.mutex.Lock()
	kinds := maps.Clone(o.kinds)
	o.mutex.Unlock()
	for kind, states := range kinds {
		counts := map[[2]string]int{}
		for state, reason := range states {
			counts[[2]string{state, reason}]++
		}
		for key, n := range counts {
			to <- prometheus.MustNewConstMetric(o.desc, prometheus.GaugeValue, float64(n), kind, key[0], key[1])
		}
	}
}

// Copies adds up what ResourceDistributions report. It asks when it is asked, and keeps nothing.
type Copies struct {
	desc  *prometheus.Desc
	mutex sync.Mutex
	sum   func() map[string]int64
}

func newCopies() *Copies {
	return &Copies{desc: prometheus.NewDesc("kruise_resourcedistribution_copies",
		"Copies of all ResourceDistributions together: desired, succeeded and failed, as in their statuses.", []string{"state"}, nil)}
}

// Count has sum asked for the copies by state.
func (c *Copies) Count(sum func() map[string]int64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.sum = sum
}

// Describe implements [prometheus.Collector].
func (c *Copies) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements [prometheus.Collector].
func (c *Copies) Collect(to chan<- prometheus.Metric) {
	c.mutex.Lock()
	sum := c.sum
	c.mutex.Unlock()
	if sum == nil {
		return // The kind is off.
	}
	for state, n := range sum() {
		to <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n), state)
	}
}
