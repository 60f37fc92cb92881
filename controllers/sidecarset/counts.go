// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// countPaths counts the sets by their condition InjectionPath.
func (r *Reconciler) countPaths(set func(value float64, labels ...string)) {
	counts := map[[2]string]int{}
	for _, stored := range r.Counted() {
		for c := range conditions.OfObject(stored.Object) {
			if c.Type == ConditionInjectionPath {
				counts[[2]string{c.Reason, string(c.Status)}]++
			}
		}
	}
	for key, n := range counts {
		set(float64(n), key[0], key[1])
	}
}

// countPods adds up the statuses of all sets. No status has how many pods lack sidecars.
func (r *Reconciler) countPods(set func(value float64, labels ...string)) {
	stored, without := r.Counted(), 0
	for i := range stored {
		without += r.Injection.lastFound(stored[i].GetName())
	}
	set(float64(without), "without_sidecar")
	for state, field := range map[string]string{
		"matched": "matchedPods", "updated": "updatedPods", "ready": "readyPods", "updated_ready": "updatedReadyPods",
	} {
		set(workload.Sum(stored, field), state)
	}
}
