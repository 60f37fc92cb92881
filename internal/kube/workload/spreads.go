// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
)

// youngest is the age of workloads that ask the server, not the cache: both objects may have been made at once.
const youngest = 10

// Spread is the WorkloadSpread of a workload of ours; nil without one. It needs no admission of pods.
func (p *Pass) Spread(ctx context.Context) (*spread.Placing, error) {
	if p.Spreads == nil {
		return nil, nil
	}
	if err := p.WatchLate(ctx, Object(spread.Kind()), nil); err != nil {
		return nil, err
	}
	stored, err := p.List(ctx, spread.Kind(), client.InNamespace(p.Stored.GetNamespace()))
	if err != nil {
		return nil, err
	}
	if found := p.placing(stored); found != nil || p.Memory.lookedForSpread {
		return found, nil
	}
	p.Memory.lookedForSpread = true
	if p.Clock.Since(p.Stored.GetCreationTimestamp().Time).Seconds() > youngest || p.Live == nil {
		return nil, nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(listOf(spread.Kind()))
	if err := p.Live.List(ctx, list, client.InNamespace(p.Stored.GetNamespace())); err != nil {
		return nil, err
	}
	if p.placing(list.Items) != nil {
		p.Memory.lookedForSpread = false
		return nil, ErrNotSynced
	}
	return nil, nil
}

func listOf(kind schema.GroupVersionKind) schema.GroupVersionKind {
	kind.Kind += "List"
	return kind
}

// placing is the first WorkloadSpread for the workload.
func (p *Pass) placing(stored []unstructured.Unstructured) *spread.Placing {
	for i := range stored {
		parsed := p.Spreads.Of(&stored[i])
		if parsed == nil || !parsed.IsFor(p.Kind.GroupKind(), p.Stored.GetName()) {
			continue
		}
		return &spread.Placing{
			Spread: parsed, Replicas: parsed.Replicas(p.Stored.Object), Shut: parsed.Shut(spread.StatusOf(&stored[i]).SubsetStatuses),
		}
	}
	return nil
}
