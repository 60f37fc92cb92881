// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"iter"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// States of Rollouts. One that is Unguarded has another state, too.
const (
	RolloutRest      = "Rest"
	RolloutStep      = "Step"
	RolloutPause     = "Pause"
	RolloutApproval  = "Approval"
	RolloutEnding    = "Ending"
	RolloutUnguarded = "Unguarded"
)

// Rollouts counts Rollouts by state. It counts when it is asked, and keeps nothing.
type Rollouts struct {
	count, since *prometheus.Desc
	mutex        sync.Mutex
	states       iter.Seq2[string, time.Time]
}

func newRollouts() *Rollouts {
	return &Rollouts{
		count: prometheus.NewDesc("kruise_rollouts", "Rollouts by state: Step (pods are replaced), Approval (somebody has to approve), Pause, Ending (the workload gets its own strategy back) and Rest. Unguarded, beside these: it is not known whether the next change is held.",
			[]string{"state"}, nil),
		since: prometheus.NewDesc("kruise_rollouts_since_seconds", "Since when the Rollout that is longest in a state is in it, in seconds since 1970; 0 without one. In Step, since its last new pod became ready.",
			[]string{"state"}, nil),
	}
}

// Count has Rollouts counted: states yields the state of each, and since when it is in it.
func (r *Rollouts) Count(states iter.Seq2[string, time.Time]) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.states = states
}

// Describe implements [prometheus.Collector].
func (r *Rollouts) Describe(to chan<- *prometheus.Desc) {
	to <- r.count
	to <- r.since
}

// Collect implements [prometheus.Collector].
func (r *Rollouts) Collect(to chan<- prometheus.Metric) {
	r.mutex.Lock()
	states := r.states
	r.mutex.Unlock()
	if states == nil {
		return // The kind is off.
	}
	counts, oldest := map[string]int{}, map[string]int64{}
	for state, since := range states {
		counts[state]++
		if at := since.Unix(); oldest[state] == 0 || at < oldest[state] {
			oldest[state] = at
		}
	}
	for _, state := range []string{RolloutRest, RolloutStep, RolloutPause, RolloutApproval, RolloutEnding, RolloutUnguarded} {
		to <- prometheus.MustNewConstMetric(r.count, prometheus.GaugeValue, float64(counts[state]), state)
		if state != RolloutRest {
			to <- prometheus.MustNewConstMetric(r.since, prometheus.GaugeValue, float64(oldest[state]), state)
		}
	}
}
