// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/place"
	"github.com/kruise-operator/kruise-operator/internal/kube/sticky"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// Places makes new pods of a workload return to their places. Nil: none are remembered.
func (b *Base) Places(ctx context.Context, workload schema.GroupKind, name types.NamespacedName) (func(*corev1.Pod), error) {
	if !b.PodPlaces {
		return nil, nil
	}
	kind := appsv1beta1.GroupVersion().WithKind("PersistentPodState")
	if err := b.WatchLate(ctx, Object(kind), nil); err != nil {
		return nil, err
	}
	stored, err := b.List(ctx, kind, client.InNamespace(name.Namespace))
	if err != nil {
		return nil, err
	}
	state := place.Of(targeting(stored, name.Name), workload, name.Name)
	if state == nil {
		return nil, nil
	}
	nodes := sticky.Nodes(ctx, b.Client)
	return func(pod *corev1.Pod) { place.Return(pod, state, nodes) }, nil
}

// targeting decodes the states with a target of this name. Undecodable ones are left out.
func targeting(stored []unstructured.Unstructured, name string) []*appsv1beta1.PersistentPodState {
	var states []*appsv1beta1.PersistentPodState
	for i := range stored {
		if target, _, _ := unstructured.NestedString(stored[i].Object, "spec", "targetRef", "name"); target != name {
			continue
		}
		state := &appsv1beta1.PersistentPodState{}
		if quantity.FromUnstructured(stored[i].Object, state) == nil {
			states = append(states, state)
		}
	}
	return states
}
