// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Derived caches what event handlers need to know about the objects of a kind, such as which nodes fit them. It is derived once for each generation of an
// object, because a node can concern any of them. The zero value knows nothing. It is safe for concurrent use.
type Derived[T any] struct {
	mu     sync.Mutex
	byName map[types.NamespacedName]derivedOf[T]
}

type derivedOf[T any] struct {
	uid        types.UID
	generation int64
	value      *T
}

// Known is what was derived of this generation of an object; nil when nothing was.
func (d *Derived[T]) Known(object client.Object) *T {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.byName[client.ObjectKeyFromObject(object)]
	if known.uid != object.GetUID() || known.generation != object.GetGeneration() {
		return nil
	}
	return known.value
}

// Keep remembers what was derived of this generation of an object. It returns what was derived of an earlier generation of the same object; nil when
// nothing was.
func (d *Derived[T]) Keep(object client.Object, value *T) (before *T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := client.ObjectKeyFromObject(object)
	if known := d.byName[name]; known.uid == object.GetUID() {
		before = known.value
	}
	if d.byName == nil {
		d.byName = map[types.NamespacedName]derivedOf[T]{}
	}
	d.byName[name] = derivedOf[T]{uid: object.GetUID(), generation: object.GetGeneration(), value: value}
	return before
}

// Only forgets all but the objects with these names.
func (d *Derived[T]) Only(names sets.Set[types.NamespacedName]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.byName {
		if !names.Has(name) {
			delete(d.byName, name)
		}
	}
}

// Len is of how many objects something is known.
func (d *Derived[T]) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.byName)
}

// Stored are the objects of the kind that the cache has, as they are stored. Read-only.
func (b *Base) Stored(ctx context.Context, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(b.Kind.GroupVersion().WithKind(b.Kind.Kind + "List"))
	if err := b.Cache.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("listing %s: %w", b.Kind.Kind, err)
	}
	return list.Items, nil
}
