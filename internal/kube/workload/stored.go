// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
)

// Object is an empty object of a kind, for reading it as it is stored.
func Object(kind schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object
}

// Metadata is an empty object of a kind, for its metadata alone.
func Metadata(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}

// listOf is an empty list of objects of a kind.
func listOf(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}

// List are the objects of a kind that the cache has, as they are stored. Read-only.
func (b *Base) List(ctx context.Context, kind schema.GroupVersionKind, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	list := listOf(kind)
	if err := b.Cache.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
	}
	return list.Items, nil
}

// Children are the objects of a kind that an object controls, as they are stored. They are watched from the first object on. deleted are those of them that
// we have deleted and that the cache still shows whole.
func (b *Base) Children(ctx context.Context, of client.Object, kind schema.GroupVersionKind) (all []unstructured.Unstructured, deleted sets.Set[types.UID], err error) {
	child := Object(kind)
	if err := b.WatchLate(ctx, child, b.Controller, cache.IndexByController); err != nil {
		return nil, nil, err
	}
	list := listOf(kind)
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

// Stored are the cached objects of the kind, as stored. Read-only.
func (b *Base) Stored(ctx context.Context, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	return b.List(ctx, b.Kind, options...)
}

// Selecting returns a MapFunc for objects selecting pods of their namespace by
// spec.selector: it names the ones selecting the pod. It skips objects with ended true; nil
// is for kinds without an end. A selector is parsed once per generation.
func (b *Base) Selecting(ended func(stored map[string]any) bool) MapFunc {
	parsed := NewParsed(SelectorOf)
	return func(ctx context.Context, pod client.Object) []types.NamespacedName {
		return b.Concerned(ctx, pod.GetNamespace(), func(stored *unstructured.Unstructured) bool {
			return (ended == nil || !ended(stored.Object)) && parsed.Of(stored).Matches(labels.Set(pod.GetLabels()))
		})
	}
}

// Concerned names the objects of the kind in a namespace that an event concerns; an empty namespace is all.
func (b *Base) Concerned(ctx context.Context, namespace string, concerns func(stored *unstructured.Unstructured) bool) []types.NamespacedName {
	stored, err := b.Stored(ctx, client.InNamespace(namespace))
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("No object is enqueued", "err", err.Error())
		return nil
	}
	var names []types.NamespacedName
	for i := range stored {
		if concerns(&stored[i]) {
			names = append(names, client.ObjectKeyFromObject(&stored[i]))
		}
	}
	return names
}

// SelectorOf is a stored object's spec.selector. An empty or unreadable one selects
// nothing: the pass reports it.
func SelectorOf(stored *unstructured.Unstructured) labels.Selector {
	field, _, _ := unstructured.NestedFieldNoCopy(stored.Object, "spec", "selector")
	raw, _ := field.(map[string]any)
	written := &metav1.LabelSelector{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(raw, written) == nil {
		if selector, err := podset.Selector(written); err == nil {
			return selector
		}
	}
	return labels.Nothing()
}

// Counted are the objects of the kind, for metrics and others without a context; none before the cache is filled.
func (b *Base) Counted() []unstructured.Unstructured {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) //nolint:forbidigo // a collector of metrics gets no context
	defer cancel()
	stored, err := b.Stored(ctx)
	if err != nil {
		return nil
	}
	return stored
}

// Sum adds up a number in the statuses of some objects.
func Sum(stored []unstructured.Unstructured, field string) (sum float64) {
	for i := range stored {
		n, _, _ := unstructured.NestedInt64(stored[i].Object, "status", field)
		sum += float64(n)
	}
	return sum
}

// states counts the objects by the True one of Stalled and Reconciling, and its reason; Settled if there is none.
func (b *Base) states(set func(value float64, labels ...string)) {
	counts := map[[2]string]int{}
	for _, object := range b.Counted() {
		state, reason := stateOf(object.Object)
		counts[[2]string{state, reason}]++
	}
	for key, n := range counts {
		set(float64(n), b.Kind.Kind, key[0], key[1])
	}
}

func stateOf(object map[string]any) (state, reason string) {
	for c := range conditions.OfObject(object) {
		if c.Status == corev1.ConditionTrue && (c.Type == "Stalled" || c.Type == "Reconciling") {
			return c.Type, c.Reason
		}
	}
	return "Settled", ""
}
