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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
)

const waitTimeout = 30 * time.Second

// getter is common to the typed clients of all kinds.
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

// typed is common to the typed clients of all kinds.
type typed[T any] interface {
	getter[T]
	Create(ctx context.Context, object *T, options metav1.CreateOptions) (*T, error)
	Update(ctx context.Context, object *T, options metav1.UpdateOptions) (*T, error)
	UpdateStatus(ctx context.Context, object *T, options metav1.UpdateOptions) (*T, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// subject is one object through a typed client. Every action on it is checked in the answer
// and in a watch: the spec must be the written one, field for field.
type subject[T, S any] struct {
	t       *testing.T
	client  typed[T]
	watcher watch.Interface
	name    string
	spec    func(*T) *S
}

// create creates an object. spec points to its spec.
func create[T, S any](t *testing.T, client typed[T], name string, object *T, spec func(*T) *S) *subject[T, S] {
	t.Helper()
	watcher, err := client.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watcher.Stop)
	s := &subject[T, S]{t: t, client: client, watcher: watcher, name: name, spec: spec}
	want := *spec(object)
	is, err := client.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the created spec", want, *spec(is))
	s.seen(watch.Added, want)
	if is, err = client.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, "the spec that is read", want, *spec(is))
	return s
}

// update writes another spec.
func (s *subject[T, S]) update(want S) *T {
	s.t.Helper()
	is := edit(s.t, s.client, s.client.Update, s.name, func(object *T) { *s.spec(object) = want })
	same(s.t, "the updated spec", want, *s.spec(is))
	s.seen(watch.Modified, want)
	return is
}

// status changes the status and returns the answer: a running operator writes status too.
func (s *subject[T, S]) status(change func(*T)) *T {
	s.t.Helper()
	return edit(s.t, s.client, s.client.UpdateStatus, s.name, change)
}

// patch sends a merge patch leading to the wanted spec.
func (s *subject[T, S]) patch(patch string, want S) {
	s.t.Helper()
	is, err := s.client.Patch(s.t.Context(), s.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	same(s.t, "the patched spec", want, *s.spec(is))
}

func (s *subject[T, S]) delete() {
	s.t.Helper()
	if err := s.client.Delete(s.t.Context(), s.name, metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.await(watch.Deleted, func(*T) bool { return true })
}

// seen waits for an event with the spec.
func (s *subject[T, S]) seen(kind watch.EventType, want S) {
	s.t.Helper()
	s.await(kind, func(object *T) bool { return equality.Semantic.DeepEqual(*s.spec(object), want) })
}

// scaler is common to the typed clients of kinds with a scale.
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

// unset names fields of our own types without a value. Kubernetes' types are skipped.
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

// await waits for an event about the object the test accepts.
func (s *subject[T, S]) await(kind watch.EventType, accept func(*T) bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), waitTimeout)
	defer cancel()
	for {
		select {
		case event, open := <-s.watcher.ResultChan():
			if !open {
				s.t.Fatalf("the watch ended before %s of %s", kind, s.name)
			}
			about, named := event.Object.(metav1.Object)
			object, ok := event.Object.(any).(*T)
			if ok && named && event.Type == kind && about.GetName() == s.name && accept(object) {
				return
			}
		case <-ctx.Done():
			s.t.Fatalf("no event %s of %s as expected within %v", kind, s.name, waitTimeout)
		}
	}
}
