// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
)

// Counted are the objects of the kind, for metrics and others without a context; none before the cache is filled.
func (b *Base) Counted() []unstructured.Unstructured {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) //nolint:forbidigo // a collector of metrics gets no context
	defer cancel()
	stored, err := b.Stored(ctx)
	if err != nil {
		return nil
	}
	return stored
}

// Sum adds up a number in the statuses of some objects.
func Sum(stored []unstructured.Unstructured, field string) (sum float64) {
	for i := range stored {
		n, _, _ := unstructured.NestedInt64(stored[i].Object, "status", field)
		sum += float64(n)
	}
	return sum
}

// states counts the objects by the True one of Stalled and Reconciling, and its reason; Settled if there is none.
func (b *Base) states(set func(value float64, labels ...string)) {
	counts := map[[2]string]int{}
	for _, object := range b.Counted() {
		state, reason := stateOf(object.Object)
		counts[[2]string{state, reason}]++
	}
	for key, n := range counts {
		set(float64(n), b.Kind.Kind, key[0], key[1])
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
