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
	"github.com/kruise-operator/kruise-operator/internal/kube/sticky"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

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
