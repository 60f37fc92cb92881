// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// counts adds up the statuses of all SidecarSets for the metrics. An unchanged set writes nothing.
type counts struct {
	injection, pods *prometheus.GaugeVec

	mutex sync.Mutex
	of    map[string]contribution
}

// contribution is the share of one set.
type contribution struct {
	// reason and status of its condition InjectionPath; empty: it has none.
	reason, status string
	pods           podCounts
}

// podCounts are numbers of pods from the status. withoutSidecar comes from the condition PodsWithoutSidecar.
type podCounts struct{ matched, updated, ready, updatedReady, withoutSidecar int }

func newCounts(injection, pods *prometheus.GaugeVec) *counts {
	c := &counts{injection: injection, pods: pods, of: map[string]contribution{}}
	c.add(podCounts{}, 1)
	return c
}

func contributionOf(status *appsv1beta1.SidecarSetStatus, withoutSidecar int) contribution {
	one := contribution{pods: podCounts{
		matched: int(status.MatchedPods), updated: int(status.UpdatedPods), ready: int(status.ReadyPods), updatedReady: int(status.UpdatedReadyPods),
		withoutSidecar: withoutSidecar,
	}}
	if path := meta.FindStatusCondition(status.Conditions, ConditionInjectionPath); path != nil {
		one.reason, one.status = path.Reason, string(path.Status)
	}
	return one
}

func (c *counts) saw(name string, now contribution) { c.note(name, now, true) }

func (c *counts) forget(name string) { c.note(name, contribution{}, false) }

func (c *counts) note(name string, now contribution, there bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	was := c.of[name]
	if there {
		c.of[name] = now
	} else {
		delete(c.of, name)
	}
	if was == now {
		return
	}
	c.add(was.pods, -1)
	c.add(now.pods, 1)
	if was.reason != "" {
		c.injection.WithLabelValues(was.reason, was.status).Dec()
	}
	if now.reason != "" {
		c.injection.WithLabelValues(now.reason, now.status).Inc()
	}
}

// add adds or subtracts the pods of one set. Hold the lock, unless c is new.
func (c *counts) add(pods podCounts, sign int) {
	for state, n := range map[string]int{
		"matched": pods.matched, "updated": pods.updated, "ready": pods.ready, "updated_ready": pods.updatedReady, "without_sidecar": pods.withoutSidecar,
	} {
		c.pods.WithLabelValues(state).Add(float64(sign * n))
	}
}
