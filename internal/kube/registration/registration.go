// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package registration maintains the objects with which the operator registers policies at the API server. Objects that are as they should be
// are only read: a restart of the operator, or a repeated check at rest, writes nothing.
package registration

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// Kept is what keeping an object came to.
type Kept struct {
	// Version is the resource version of the object as it should be.
	Version string
	// Created says that it was not there, Changed that it was not as it should be.
	Created, Changed bool
}

// Keep creates an object or restores it after any change. The reader must see the API server's present state.
func Keep(ctx context.Context, reader client.Reader, writer client.Client, object runtime.Object) (Kept, error) {
	want, err := contentOf(object)
	if err != nil {
		return Kept{}, err
	}
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(want.GroupVersionKind())
	err = reader.Get(ctx, client.ObjectKeyFromObject(want), have)
	if err == nil && holds(want, have) {
		return Kept{Version: have.GetResourceVersion()}, nil
	}
	if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
		return Kept{}, fmt.Errorf("reading %s %s: %w", want.GetKind(), want.GetName(), err)
	}
	return apply(ctx, writer, want, err == nil)
}

// KeepListed is Keep for an object of which a list has shown what is there; nil: nothing.
func KeepListed(ctx context.Context, writer client.Client, object, there runtime.Object) (Kept, error) {
	want, err := contentOf(object)
	if err != nil {
		return Kept{}, err
	}
	if there != nil {
		have, err := contentOf(there)
		if err != nil {
			return Kept{}, err
		}
		if holds(want, have) {
			return Kept{Version: have.GetResourceVersion()}, nil
		}
	}
	return apply(ctx, writer, want, there != nil)
}

func apply(ctx context.Context, writer client.Client, want *unstructured.Unstructured, exists bool) (Kept, error) {
	err := writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(want), client.FieldOwner(shared.FieldManager), client.ForceOwnership)
	// The answer was decoded into what was sent.
	return Kept{Version: want.GetResourceVersion(), Created: !exists, Changed: exists}, err
}

func contentOf(object runtime.Object) (*unstructured.Unstructured, error) {
	if is, ok := object.(*unstructured.Unstructured); ok {
		return is, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("encoding an object to be registered: %w", err)
	}
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	return &unstructured.Unstructured{Object: content}, nil
}

// holds says whether an object that is there has the labels, the owners and the spec that it should have.
func holds(want, have *unstructured.Unstructured) bool {
	for key, value := range want.GetLabels() {
		if have.GetLabels()[key] != value {
			return false
		}
	}
	return equality.Semantic.DeepEqual(want.GetOwnerReferences(), have.GetOwnerReferences()) && says(want.Object["spec"], have.Object["spec"])
}

// says compares contents. The API server fills in words and empty selectors, which may be more than is wanted; anything else may not.
func says(want, have any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, is := have.(map[string]any)
		if !is {
			return false
		}
		for key, value := range want {
			if !says(value, have[key]) {
				return false
			}
		}
		for key, value := range have {
			if _, wanted := want[key]; !wanted && !filledIn(value) {
				return false
			}
		}
		return true
	case []any:
		have, is := have.([]any)
		if !is || len(have) != len(want) {
			return false
		}
		for i := range want {
			if !says(want[i], have[i]) {
				return false
			}
		}
		return true
	default:
		return equality.Semantic.DeepEqual(want, have)
	}
}

func filledIn(value any) bool {
	switch value := value.(type) {
	case string:
		return true
	case map[string]any:
		return len(value) == 0
	default:
		return value == nil
	}
}
