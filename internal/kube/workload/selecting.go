// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

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
