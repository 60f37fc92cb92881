// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podorder says which pod comes first: for an update, by the user's priorities and scattering; for a deletion, by how
// little is lost.
//
// Orders are stable: pods that no criterion tells apart keep the order in which they came. Keys are computed once per pod.
package podorder

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// UpdateOrder is a user's wish about the order of an update.
type UpdateOrder struct {
	// Priority ranks the pods; nil keeps the order.
	Priority *shared.UpdatePriorityStrategy
	// Scatter spreads pods evenly over the order, term by term.
	Scatter []shared.UpdateScatterTerm
}

// ForUpdate returns the waiting pods in the order in which they should be updated. They come in the workload's own order, which
// holds among equals. all are all pods of the workload, updated ones included; only scattering looks at them. object gives the
// corev1.Pod of a P. The error names the term that cannot be used.
func ForUpdate[P any](waiting, all []P, object func(P) *corev1.Pod, order UpdateOrder) ([]P, error) {
	panic("not written yet")
}

// Victim is what the order of deletion needs to know of a pod.
type Victim struct {
	Object           *corev1.Pod
	Ready, Available bool
}

// Spread is how the pods of a workload should be spread over the cluster.
type Spread struct {
	// Constraints are the template's.
	Constraints []corev1.TopologySpreadConstraint
	// Domain is the value of a label of a node; "" when the node has none or is not known. May be nil without constraints.
	Domain func(node, key string) string
	// Related are all pods of the workload that count for crowding.
	Related []*corev1.Pod
}

// ForDeletion returns the pods in the order in which they should be deleted when the workload shrinks.
func ForDeletion[P any](pods []P, victim func(P) Victim, spread Spread, now time.Time) []P {
	panic("not written yet")
}
