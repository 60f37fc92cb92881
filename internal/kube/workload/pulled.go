// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// FindImages marks outdated pods on nodes with the update's images. It reads one NodeImage
// for each such node from the cache, and none without images pulled ahead: without the
// feature gate, the kind ImagePullJob, or a rollout with jobs. Before the cache holds the
// NodeImages it marks nothing: the update's order is then the plain one.
func (p *Pass) FindImages(ctx context.Context, about func() *image.Workload, update string, pods []podset.Pod) {
	if p.Images == nil || p.Images.Status == nil {
		return
	}
	described := about()
	if described == nil {
		return
	}
	wanted := image.ToPreDownload(*described)
	if len(wanted) == 0 {
		return
	}
	if err := p.WatchLate(ctx, nodeImage(), nil); err != nil {
		return
	}
	nodes := map[string]bool{}
	for i := range pods {
		pod := &pods[i]
		node := pod.Object.Spec.NodeName
		if node == "" || pod.Terminating || pod.Revision == update {
			continue
		}
		has, known := nodes[node]
		if !known {
			has = p.hasImages(ctx, node, described.Namespace, wanted)
			nodes[node] = has
		}
		pod.ImagesPreDownloaded = has
	}
}

func nodeImage() *unstructured.Unstructured {
	return Object(appsv1beta1.GroupVersion().WithKind("NodeImage"))
}

// hasImages is true if a node reports all images as pulled.
func (b *Base) hasImages(ctx context.Context, node, namespace string, wanted []image.Reference) bool {
	stored := nodeImage()
	if err := b.Cache.Get(ctx, client.ObjectKey{Name: node}, stored, client.UnsafeDisableDeepCopy); err != nil {
		return false
	}
	shared, _, _ := unstructured.NestedFieldNoCopy(stored.Object, "status", "imageStatuses")
	namespaced, _, _ := unstructured.NestedFieldNoCopy(stored.Object, "status", "namespacedImageStatuses")
	for _, reference := range wanted {
		own := image.Place{Namespace: namespace, Repository: reference.Repository}.Key()
		if !pulled(shared, reference.Repository, reference.Tag) && !pulled(namespaced, own, reference.Tag) {
			return false
		}
	}
	return true
}

// pulled is true if a repository's status reports a tag as pulled.
func pulled(statuses any, key, tag string) bool {
	all, _ := statuses.(map[string]any)
	repository, _ := all[key].(map[string]any)
	tags, _ := repository["tags"].([]any)
	for _, entry := range tags {
		answer, _ := entry.(map[string]any)
		if answer["tag"] == tag && answer["phase"] == string(appsv1beta1.ImagePhaseSucceeded) {
			return true
		}
	}
	return false
}
