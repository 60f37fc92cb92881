// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

// store is a cache at a version.
type store string

func (s store) LastStoreSyncResourceVersion() string { return string(s) }

func kindPod() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("Pod") }

// owner is cluster-scoped; its objects are not.
func owner() freshness.Owner {
	return freshness.Owner{NamespacedName: types.NamespacedName{Name: "sidecars"}, UID: "sidecars"}
}

func newWriter(t *testing.T) (*Writer, *testutil.Client, *corev1.Pod) {
	t.Helper()
	kinds, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	pod := testutil.Pod("web-0").Namespace("shop").UID("a").Obj()
	server := testutil.NewClient(kinds, nil, pod)
	record := &freshness.Record{}
	tracker := freshness.New((&Writer{Live: server}).Look, clock.RealClock{}, func(freshness.Owner) *freshness.Record { return record })
	tracker.Watch(kindPod(), store(""))
	return &Writer{Client: server, Live: server, Tracker: tracker}, server, pod
}

// verbs are the writes of a Writer, each with one object.
func verbs(w *Writer, pod *corev1.Pod) map[string]func(context.Context) error {
	ref := freshness.RefOf(kindPod(), pod)
	return map[string]func(context.Context) error{
		"create": func(ctx context.Context) error {
			return w.Create(ctx, owner(), kindPod(), testutil.Pod("web-1").Namespace("shop").Obj(), "")
		},
		"patch": func(ctx context.Context) error {
			_, err := w.Patch(ctx, owner(), ref, Patch{Type: types.MergePatchType, Content: []byte(`{"metadata":{"labels":{"a":"b"}}}`)})
			return err
		},
		"apply": func(ctx context.Context) error {
			object := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": "shop", "name": "web-2"},
			}}
			_, err := w.Apply(ctx, owner(), kindPod(), object, Apply{})
			return err
		},
		"delete": func(ctx context.Context) error { return w.Delete(ctx, owner(), ref, Delete{}) },
	}
}

func TestWritesAreWaitedFor(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web-0", errors.New("quota"))
	for verb := range verbs(nil, &corev1.Pod{}) {
		for name, tc := range map[string]struct {
			err       error
			afterward bool // the server does it all the same
			waits     bool
		}{
			"done":                            {afterward: true, waits: verb != "delete"}, // that of a deletion shows as a pod that is gone
			"refused":                         {err: refused},
			"done, and the answer was lost":   {err: io.ErrUnexpectedEOF, afterward: true, waits: verb != "delete"},
			"not done, and nobody knows this": {err: io.ErrUnexpectedEOF},
		} {
			t.Run(verb+" "+name, func(t *testing.T) {
				w, server, pod := newWriter(t)
				live := &corev1.Pod{}
				if err := server.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: pod.Name}, live); err != nil {
					t.Fatal(err)
				}
				server.SetFault(func(_ context.Context, _ testutil.Write, forward func() error) error {
					if tc.afterward {
						if err := forward(); err != nil {
							t.Error(err)
						}
					}
					return tc.err
				})
				if err := verbs(w, live)[verb](t.Context()); !errors.Is(err, tc.err) {
					t.Fatalf("error %v, want %v", err, tc.err)
				}
				wait, err := w.Tracker.Ready(t.Context(), owner())
				if err != nil || (wait > 0) != tc.waits {
					t.Errorf("waits %v, want %v; error %v", wait, tc.waits, err)
				}
			})
		}
	}
}

func TestDeletionCountsFromBeforeTheRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"done":     {nil, true},
		"in doubt": {io.ErrUnexpectedEOF, true},
		"refused":  {apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web-0", errors.New("precondition")), false},
	} {
		t.Run(name, func(t *testing.T) {
			w, server, pod := newWriter(t)
			going := func() bool {
				return w.Tracker.Deleted(owner(), kindPod(), slices.Values([]metav1.Object{pod})).Has(pod.UID)
			}
			during := false
			server.SetFault(func(context.Context, testutil.Write, func() error) error {
				during = going()
				return tc.err
			})
			if err := w.Delete(t.Context(), owner(), freshness.RefOf(kindPod(), pod), Delete{}); !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			if !during {
				t.Error("the pod does not count as deleted while the request is under way")
			}
			if got := going(); got != tc.want {
				t.Errorf("counts as deleted afterward: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestDeletionOfWhatIsGone(t *testing.T) {
	w, _, pod := newWriter(t)
	for range 2 {
		if err := w.Delete(t.Context(), owner(), freshness.RefOf(kindPod(), pod), Delete{}); err != nil {
			t.Error(err)
		}
	}
}

func TestEveryWriteHasADeadline(t *testing.T) {
	for verb := range verbs(nil, &corev1.Pod{}) {
		t.Run(verb, func(t *testing.T) {
			w, server, pod := newWriter(t)
			w.Timeout = 10 * time.Millisecond
			server.SetFault(func(ctx context.Context, _ testutil.Write, _ func() error) error {
				<-ctx.Done()
				return ctx.Err()
			})
			if err := verbs(w, pod)[verb](t.Context()); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want the deadline", err)
			}
		})
	}
}

func TestApplyRefusesTypedObjects(t *testing.T) {
	w, server, pod := newWriter(t)
	if _, err := w.Apply(t.Context(), owner(), kindPod(), pod, Apply{}); !errors.Is(err, ErrNotUnstructured) {
		t.Errorf("error %v", err)
	}
	if got := len(server.Writes()); got != 0 {
		t.Errorf("%d writes", got)
	}
}

// An admission webhook denied a write with the code of a conflict or a missing object: it
// was repeated for ever, and nobody was told.
func TestTheRefusalOfAWebhookIsPlainWhateverItsCode(t *testing.T) {
	for _, answer := range []metav1.Status{
		{Code: 404, Reason: metav1.StatusReasonNotFound}, {Code: 409, Reason: metav1.StatusReasonConflict}, {Code: 409, Reason: metav1.StatusReasonAlreadyExists},
		{Code: 410, Reason: metav1.StatusReasonGone}, {Code: 422}, {Code: 422, Reason: metav1.StatusReasonInvalid},
	} {
		answer.Status, answer.Message = metav1.StatusFailure, `admission webhook "labels.example.com" denied the request: no owner`
		for verb := range verbs(nil, &corev1.Pod{}) {
			t.Run(fmt.Sprint(verb, answer.Code, answer.Reason), func(t *testing.T) {
				w, server, pod := newWriter(t)
				server.SetFault(func(context.Context, testutil.Write, func() error) error {
					return &apierrors.StatusError{ErrStatus: answer}
				})
				err := verbs(w, pod)[verb](t.Context())
				if !apierrors.IsForbidden(err) || err.Error() != answer.Message {
					t.Errorf("got %v, want a refusal with the words of the webhook", err)
				}
				if w.Tracker.Deleted(owner(), kindPod(), slices.Values([]metav1.Object{pod})).Has(pod.UID) {
					t.Error("the pod counts as deleted")
				}
			})
		}
	}
}

func TestFailedTestOfAJSONPatchIsAConflict(t *testing.T) {
	changed := apierrors.NewGenericServerResponse(422, "", schema.GroupResource{}, "", "testing value /metadata/generation failed: test failed", 0, false)
	invalid := apierrors.NewInvalid(kindPod().GroupKind(), "web-0", field.ErrorList{field.Invalid(field.NewPath("spec"), "", "no")})
	for name, tc := range map[string]struct {
		answer   error
		patch    types.PatchType
		conflict bool
	}{
		"the object has changed":             {changed, types.JSONPatchType, true},
		"admission refuses the object":       {invalid, types.JSONPatchType, false},
		"a merge that cannot be carried out": {changed, types.MergePatchType, false},
		"no right":                           {apierrors.NewForbidden(schema.GroupResource{}, "web-0", nil), types.JSONPatchType, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, server, pod := newWriter(t)
			server.SetFault(func(context.Context, testutil.Write, func() error) error { return tc.answer })
			body := []byte(`[{"op":"test","path":"/metadata/generation","value":1}]`)
			_, err := w.Patch(t.Context(), owner(), freshness.RefOf(kindPod(), pod), Patch{Type: tc.patch, Content: body})
			if apierrors.IsConflict(err) != tc.conflict {
				t.Errorf("conflict %v, want %v: %v", !tc.conflict, tc.conflict, err)
			}
			if !tc.conflict && !errors.Is(err, tc.answer) {
				t.Errorf("got %v, want %v", err, tc.answer)
			}
		})
	}
}
