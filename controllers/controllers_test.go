// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
)

func TestEveryKindThatCanBeSwitchedOffHasItsReconciler(t *testing.T) {
	for _, kind := range All() {
		if kind.Entry.Controller == kinds.Optional && (kind.Setup == nil || kind.Name == "") {
			t.Errorf("%s has no name or no reconciler", kind.Entry.Name)
		}
		if kind.Convert != nil && kind.Convert().GroupKind != kind.Entry.GroupKind() {
			t.Errorf("%s converts %s", kind.Entry.Name, kind.Convert().GroupKind)
		}
	}
}

// The metrics of a process outlive its managers. What nobody counts any more must not keep its last value.
func TestCountsOfTheManagerBeforeAreForgotten(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := metrics.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	m.PodsHeld.WithLabelValues("Lifecycle").Set(2)
	m.PodsHeldSince.WithLabelValues("Lifecycle").Set(1e9)
	m.LaunchWaiting.WithLabelValues("true").Set(1)
	m.SidecarSetInjection.WithLabelValues("Policy", "True").Set(1)
	m.SidecarSetPods.WithLabelValues("matched").Set(1)
	forgetCounts(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if slices.Contains([]string{"kruise_pods_held_not_ready", "kruise_pods_held_not_ready_since_seconds", "kruise_launch_priority_waiting_pods", "kruise_sidecarset_injection", "kruise_sidecarset_pods"}, family.GetName()) {
			t.Errorf("%s is still there", family.GetName())
		}
	}
}
