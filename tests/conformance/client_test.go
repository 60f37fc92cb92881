// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
)

const patience = 30 * time.Second

// getter is what the typed clients of all kinds have in common.
type getter[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*T, error)
}

// edit reads an object, changes it and writes it back, again after a conflict: a running operator writes too. It returns the answer to
// the write.
func edit[T any](t *testing.T, from getter[T], write func(context.Context, *T, metav1.UpdateOptions) (*T, error), name string, change func(*T)) *T {
	t.Helper()
	var object *T
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var err error
		if object, err = from.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		change(object)
		object, err = write(t.Context(), object, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// scaler is what the typed clients of kinds with a scale have in common.
type scaler interface {
	GetScale(ctx context.Context, name string, options metav1.GetOptions) (*autoscalingv1.Scale, error)
	UpdateScale(ctx context.Context, name string, scale *autoscalingv1.Scale, options metav1.UpdateOptions) (*autoscalingv1.Scale, error)
}

// scaled changes replicas through the scale subresource.
func scaled(t *testing.T, sets scaler, name string, replicas int32) *autoscalingv1.Scale {
	t.Helper()
	var scale *autoscalingv1.Scale
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var err error
		if scale, err = sets.GetScale(t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		scale.Spec.Replicas = replicas
		scale, err = sets.UpdateScale(t.Context(), name, scale, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return scale
}

// unset names the fields of our own types that have no value. Types of Kubernetes itself are not looked into.
func unset(object any) []string { return unsetBelow(reflect.ValueOf(object), "") }

func unsetBelow(v reflect.Value, path string) []string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return []string{path}
		}
		return unsetBelow(v.Elem(), path)
	case reflect.Slice:
		if v.Len() == 0 {
			return []string{path}
		}
		return unsetBelow(v.Index(0), path)
	case reflect.Struct:
		if !strings.Contains(v.Type().PkgPath(), "kruise-api") {
			return nil
		}
		var names []string
		for i := range v.NumField() {
			names = append(names, unsetBelow(v.Field(i), path+"."+v.Type().Field(i).Name)...)
		}
		return names
	default:
		if v.IsZero() {
			return []string{path}
		}
		return nil
	}
}

func same[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if !equality.Semantic.DeepEqual(want, got) {
		t.Errorf("%s (-want +got):\n%s", what, cmp.Diff(want, got))
	}
}

// seen waits for an event about an object that the test accepts.
func seen[T metav1.Object](t *testing.T, watcher watch.Interface, kind watch.EventType, name string, accept func(T) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		select {
		case event, open := <-watcher.ResultChan():
			if !open {
				t.Fatalf("the watch ended before %s of %s", kind, name)
			}
			if object, ok := event.Object.(T); ok && event.Type == kind && object.GetName() == name && accept(object) {
				return
			}
		case <-ctx.Done():
			t.Fatalf("no event %s of %s as expected within %v", kind, name, patience)
		}
	}
}
