// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package nodepodprobe

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
)

// ofNode names the NodePodProbe of a node.
func ofNode(_ context.Context, node client.Object) []types.NamespacedName {
	return []types.NamespacedName{{Name: node.GetName()}}
}

// ofPod names the NodePodProbe of the pod's node, if there is a PodProbeMarker in its namespace.
func (r *Reconciler) ofPod(ctx context.Context, object client.Object) []types.NamespacedName {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" || r.off {
		return nil
	}
	stored, err := r.List(ctx, markerKind(), client.InNamespace(pod.Namespace), client.Limit(1))
	if err != nil || len(stored) == 0 {
		return nil
	}
	return []types.NamespacedName{{Name: pod.Spec.NodeName}}
}

// nodesOf names the NodePodProbes of nodes with pods a PodProbeMarker selects.
func (r *Reconciler) nodesOf(ctx context.Context, object client.Object) []types.NamespacedName {
	stored, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	marker := r.Markers.Of(stored)
	if marker == nil {
		return nil
	}
	var pods corev1.PodList
	err := r.Cache.List(ctx, &pods, client.InNamespace(marker.Namespace), client.MatchingLabelsSelector{Selector: marker.Selector}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil
	}
	nodes := sets.New[string]()
	for i := range pods.Items {
		if node := pods.Items[i].Spec.NodeName; node != "" {
			nodes.Insert(node)
		}
	}
	names := make([]types.NamespacedName, 0, len(nodes))
	for _, node := range sets.List(nodes) {
		names = append(names, types.NamespacedName{Name: node})
	}
	return names
}

// changed: a pod changed in fields deciding its probes, or in fields results change.
func changed(before, after *corev1.Pod) bool {
	return !maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations) ||
		probing.Active(before) != probing.Active(after) || before.Status.PodIP != after.Status.PodIP ||
		before.Spec.NodeName != after.Spec.NodeName || !probing.SameConditions(before, after)
}
