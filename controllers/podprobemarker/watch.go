// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podprobemarker

import (
	"context"
	"iter"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
)

// changed reports whether a pod changed in fields affecting its probes.
func changed(before, after *corev1.Pod) bool {
	return !maps.Equal(before.Labels, after.Labels) || probing.Active(before) != probing.Active(after) ||
		before.Status.PodIP != after.Status.PodIP || before.Spec.NodeName != after.Spec.NodeName
}

// markersIn names the markers with probes in a NodePodProbe.
func markersIn(_ context.Context, object client.Object) []types.NamespacedName {
	stored, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	names := sets.New[types.NamespacedName]()
	for pod, probe := range itemsOf(stored, "probes", "spec", "podProbes") {
		namespace, _ := pod["namespace"].(string)
		key, _ := probe["name"].(string)
		if marker, _, ok := probing.SplitKey(key); ok {
			names.Insert(types.NamespacedName{Namespace: namespace, Name: marker})
		}
	}
	return names.UnsortedList()
}

// byMarker indexes NodePodProbes by their markers.
const byMarker = "marker"

func index(ctx context.Context, indexer client.FieldIndexer, lists client.Object) error {
	return indexer.IndexField(ctx, lists, byMarker, func(object client.Object) []string {
		var keys []string
		for _, name := range markersIn(ctx, object) {
			keys = append(keys, name.String())
		}
		return keys
	})
}

// itemsOf are the items in a list of each pod of a NodePodProbe, with their pods.
func itemsOf(stored *unstructured.Unstructured, list string, path ...string) iter.Seq2[map[string]any, map[string]any] {
	value, _, _ := unstructured.NestedFieldNoCopy(stored.Object, path...)
	pods, _ := value.([]any)
	return func(yield func(pod, item map[string]any) bool) {
		for _, entry := range pods {
			pod, _ := entry.(map[string]any)
			items, _ := pod[list].([]any)
			for _, each := range items {
				if item, _ := each.(map[string]any); !yield(pod, item) {
					return
				}
			}
		}
	}
}
