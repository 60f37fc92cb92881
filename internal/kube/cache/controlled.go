// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ControlledPods returns the pods the workload with this UID controls in namespace. They
// are the cache's own: read-only.
func ControlledPods(ctx context.Context, reader client.Reader, namespace string, owner types.UID) ([]*corev1.Pod, error) {
	return indexedPods(ctx, reader, namespace, byController, string(owner))
}

// Annotated returns the pods in namespace, or in all if empty, whose annotation key lists
// name. An enabled kind must need pods with this annotation. They are the cache's own:
// read-only.
func Annotated(ctx context.Context, reader client.Reader, key, namespace, name string) ([]*corev1.Pod, error) {
	return indexedPods(ctx, reader, namespace, byAnnotation(key), name)
}

// indexedPods asks an index of pods. A list copies each pod shallowly: more than a megabyte
// for a thousand pods, in each pass. So a cache is asked for the pods themselves.
func indexedPods(ctx context.Context, reader client.Reader, namespace, index, value string) ([]*corev1.Pod, error) {
	if c, ok := reader.(ctrlcache.Cache); ok {
		if pods, ok := storedPods(ctx, c, namespace, index, value); ok {
			return pods, nil
		}
	}
	var list corev1.PodList
	err := reader.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{index: value}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing pods by %s: %w", index, err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, nil
}

// storedPods asks an index of the informer, by controller-runtime's names and keys. It
// returns false without such an index, and before the informer is filled.
func storedPods(ctx context.Context, c ctrlcache.Cache, namespace, index, value string) ([]*corev1.Pod, bool) {
	informer, err := c.GetInformer(ctx, &corev1.Pod{}, ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return nil, false
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok || !shared.HasSynced() {
		return nil, false
	}
	if namespace == "" {
		namespace = "__all_namespaces"
	}
	found, err := shared.GetIndexer().ByIndex("field:"+index, namespace+"/"+value)
	if err != nil {
		return nil, false
	}
	pods := make([]*corev1.Pod, 0, len(found))
	for _, object := range found {
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return nil, false
		}
		pods = append(pods, pod)
	}
	return pods, true
}
