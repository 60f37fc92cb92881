// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
)

// states yields for each object of the kind the True one of Stalled and Reconciling, and
// its reason; Settled if there is none. Before the cache is filled it yields nothing.
func (b *Base) states(yield func(state, reason string) bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) //nolint:forbidigo // a collector of metrics gets no context
	defer cancel()
	stored, err := b.List(ctx, b.Kind)
	if err != nil {
		return
	}
	for i := range stored {
		if !yield(stateOf(stored[i].Object)) {
			return
		}
	}
}

func stateOf(object map[string]any) (state, reason string) {
	for c := range conditions.OfObject(object) {
		if c.Status == corev1.ConditionTrue && (c.Type == "Stalled" || c.Type == "Reconciling") {
			return c.Type, c.Reason
		}
	}
	return "Settled", ""
}
