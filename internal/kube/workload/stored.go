// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
)

// Object is an empty object of a kind, for reading it as it is stored.
func Object(kind schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object
}

// List are the objects of a kind that the cache has, as they are stored. Read-only.
func (b *Base) List(ctx context.Context, kind schema.GroupVersionKind, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := b.Cache.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
	}
	return list.Items, nil
}

// Children are the objects of a kind that an object controls, as they are stored. They are watched from the first object on. deleted are those of them that
// we have deleted and that the cache still shows whole.
func (b *Base) Children(ctx context.Context, of client.Object, kind schema.GroupVersionKind) (all []unstructured.Unstructured, deleted sets.Set[types.UID], err error) {
	child := Object(kind)
	err = b.WatchLate(ctx, child, b.Controller, func(ctx context.Context, indexer client.FieldIndexer) error {
		return cache.IndexByController(ctx, indexer, child)
	})
	if err != nil {
		return nil, nil, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	owner := freshness.OwnerOf(of)
	if err := cache.Controlled(ctx, b.Cache, list, owner.Namespace, owner.UID); err != nil {
		return nil, nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
	}
	deleted = b.Tracker.Deleted(owner, kind, func(yield func(metav1.Object) bool) {
		for i := range list.Items {
			if !yield(&list.Items[i]) {
				return
			}
		}
	})
	return list.Items, deleted, nil
}
