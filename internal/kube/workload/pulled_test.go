// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/image"
)

// view is a cache for reading one object only.
type view struct {
	cache.Cache
	stored client.Client
}

func (v view) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	return v.stored.Get(ctx, key, into)
}

func TestNodesThatHaveImages(t *testing.T) {
	types := runtime.NewScheme()
	if err := appsv1beta1.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	list := &appsv1beta1.NodeImage{}
	list.Name = "node"
	list.Status.ImageStatuses = map[string]appsv1beta1.ImageStatus{
		"web": {Tags: []appsv1beta1.ImageTagStatus{{Tag: "v1", Phase: appsv1beta1.ImagePhaseSucceeded}, {Tag: "v2", Phase: appsv1beta1.ImagePhasePulling}}},
		"log": {Tags: []appsv1beta1.ImageTagStatus{{Tag: "v1", Phase: appsv1beta1.ImagePhaseSucceeded}}},
		"bad": {Tags: []appsv1beta1.ImageTagStatus{{Tag: "v1", Phase: appsv1beta1.ImagePhaseFailed}}},
	}
	list.Status.NamespacedImageStatuses = map[string]appsv1beta1.ImageStatus{
		"a/apart": {Tags: []appsv1beta1.ImageTagStatus{{Tag: "v1", Phase: appsv1beta1.ImagePhaseSucceeded}}},
		"b/other": {Tags: []appsv1beta1.ImageTagStatus{{Tag: "v1", Phase: appsv1beta1.ImagePhaseSucceeded}}},
	}
	b := &Base{Dependencies: Dependencies{Cache: view{stored: fake.NewClientBuilder().WithScheme(types).WithObjects(list).Build()}}}
	reference := func(repository, tag string) image.Reference { return image.Reference{Repository: repository, Tag: tag} }
	for what, tc := range map[string]struct {
		node   string
		wanted []image.Reference
		want   bool
	}{
		"an image that was pulled":      {"node", []image.Reference{reference("web", "v1")}, true},
		"two that were":                 {"node", []image.Reference{reference("web", "v1"), reference("log", "v1")}, true},
		"one that is being pulled":      {"node", []image.Reference{reference("web", "v1"), reference("web", "v2")}, false},
		"one that failed":               {"node", []image.Reference{reference("bad", "v1")}, false},
		"one that nobody asked for":     {"node", []image.Reference{reference("api", "v1")}, false},
		"one that is kept apart":        {"node", []image.Reference{reference("apart", "v1"), reference("web", "v1")}, true},
		"one of another namespace":      {"node", []image.Reference{reference("other", "v1")}, false},
		"a node that was asked nothing": {"other", []image.Reference{reference("web", "v1")}, false},
	} {
		t.Run(what, func(t *testing.T) {
			if got := b.hasImages(t.Context(), tc.node, "a", tc.wanted); got != tc.want {
				t.Errorf("has them: %v, want %v", got, tc.want)
			}
		})
	}
}
