// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podprobemarker

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/podprobemarker/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
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
	seen := map[types.NamespacedName]bool{}
	var names []types.NamespacedName
	for _, entry := range listOf(stored, "spec", "podProbes") {
		pod, _ := entry.(map[string]any)
		namespace, _ := pod["namespace"].(string)
		probes, _ := pod["probes"].([]any)
		for _, p := range probes {
			probe, _ := p.(map[string]any)
			key, _ := probe["name"].(string)
			marker, _, ok := probing.SplitKey(key)
			name := types.NamespacedName{Namespace: namespace, Name: marker}
			if ok && !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}

// byMarker indexes NodePodProbes by their markers.
const byMarker = "marker"

func index(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, workload.Object(plan.KindNodePodProbe()), byMarker, func(object client.Object) []string {
		var keys []string
		for _, name := range markersIn(ctx, object) {
			keys = append(keys, name.String())
		}
		return keys
	})
}

func listOf(stored *unstructured.Unstructured, path ...string) []any {
	value, _, _ := unstructured.NestedFieldNoCopy(stored.Object, path...)
	list, _ := value.([]any)
	return list
}
