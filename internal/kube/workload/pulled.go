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

// FindImages notes which outdated pods are on nodes that have the images of the update already. It reads one NodeImage for each of these nodes
// from the cache, and nothing where no images are pulled ahead: without the feature gate or the kind ImagePullJob, and without a rollout that
// has jobs. Nothing is noted before the cache holds the NodeImages: the order of an update is then what it is without them.
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

// hasImages says whether a node says that it has pulled all of the images.
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

// pulled says whether the status of a repository says that a tag was pulled.
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
