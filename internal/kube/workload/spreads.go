// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/place"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/kube/sticky"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
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
	list := listOf(spread.Kind())
	if err := p.Live.List(ctx, list, client.InNamespace(p.Stored.GetNamespace())); err != nil {
		return nil, err
	}
	if p.placing(list.Items) != nil {
		p.Memory.lookedForSpread = false
		return nil, ErrNotSynced
	}
	return nil, nil
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

// Places makes new pods of a workload of ours return to their places; nil: none are remembered. It needs no admission of pods.
func (p *Pass) Places(ctx context.Context) (func(*corev1.Pod), error) {
	if !p.PodPlaces {
		return nil, nil
	}
	kind := appsv1beta1.GroupVersion().WithKind("PersistentPodState")
	if err := p.WatchLate(ctx, Object(kind), nil); err != nil {
		return nil, err
	}
	stored, err := p.List(ctx, kind, client.InNamespace(p.Stored.GetNamespace()))
	if err != nil {
		return nil, err
	}
	var ours []*unstructured.Unstructured
	for i := range stored {
		if target, _, _ := unstructured.NestedString(stored[i].Object, "spec", "targetRef", "name"); target == p.Stored.GetName() {
			ours = append(ours, &stored[i])
		}
	}
	if len(ours) == 0 {
		return nil, nil
	}
	// Most passes create no pod, and a status may have thousands of places. The cache may not have the last one yet.
	state := sync.OnceValue(func() *appsv1beta1.PersistentPodState {
		return place.Of(p.latest(ctx, ours), p.Kind.GroupKind(), p.Stored.GetName())
	})
	nodes := sticky.Nodes(ctx, p.Client)
	return func(pod *corev1.Pod) {
		if state := state(); state != nil {
			place.Return(pod, state, nodes)
		}
	}, nil
}

// latest asks the server for states, or else takes them from the cache. It leaves out those that cannot be decoded.
func (p *Pass) latest(ctx context.Context, stored []*unstructured.Unstructured) []*appsv1beta1.PersistentPodState {
	ctx, cancel := context.WithTimeout(ctx, p.WriteTimeout)
	defer cancel()
	var states []*appsv1beta1.PersistentPodState
	for _, object := range stored {
		is := Object(object.GroupVersionKind())
		if p.Live == nil || p.Live.Get(ctx, client.ObjectKeyFromObject(object), is) != nil {
			is = object
		}
		state := &appsv1beta1.PersistentPodState{}
		if quantity.FromUnstructured(is.Object, state) == nil {
			states = append(states, state)
		}
	}
	return states
}
