// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagepulljob

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/imagepulljob/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

// Two jobs of a namespace name the same Secret: they share one copy.
func TestJobsShareTheCopyOfASecret(t *testing.T) {
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	source := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: "regcred", Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}},
		Type:       corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte("{}")},
	}
	c := fake.NewClientBuilder().WithScheme(types).WithObjects(installed(source)...).Build()
	r := New(workload.Dependencies{Client: c, Live: c, Clock: clock.RealClock{}, WriteTimeout: time.Minute})
	spec := func(name string) *plan.Spec {
		return plan.Parse(&appsv1beta1.ImagePullJob{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: name, Finalizers: []string{plan.Finalizer}},
			Spec:       appsv1beta1.ImagePullJobSpec{Image: "nginx", ImagePullJobTemplate: appsv1beta1.ImagePullJobTemplate{PullSecrets: []string{"regcred", "gone"}}},
		})
	}
	name := copyName("ns1", "regcred")
	held := func(job string) {
		t.Helper()
		made, err := r.copyAll(t.Context(), spec(job), true)
		if err != nil {
			t.Fatal(err)
		}
		want := []appsv1beta1.ImagePullSecret{{Namespace: secretNamespace, Name: name, Mode: "batch"}}
		if diff := cmp.Diff(want, made.held); diff != "" || !cmp.Equal(made.missing, []string{"gone"}) {
			t.Errorf("%s: missing %v, held:\n%s", job, made.missing, diff)
		}
	}
	shared := func(references, data string) {
		t.Helper()
		all := &corev1.SecretList{}
		if err := c.List(t.Context(), all, client.InNamespace(secretNamespace)); err != nil || len(all.Items) != 1 {
			t.Fatalf("%d copies: %v", len(all.Items), err)
		}
		is := &all.Items[0]
		want := map[string]string{annotationReferences: references, annotationSource: "ns1/regcred", annotationMode: modeShared}
		if diff := cmp.Diff(want, is.Annotations); diff != "" || is.Name != name || is.Type != source.Type || string(is.Data[corev1.DockerConfigJsonKey]) != data {
			t.Errorf("%s of type %s is %s, annotations:\n%s", is.Name, is.Type, is.Data, diff)
		}
	}
	released := func(job string) {
		t.Helper()
		s := &plan.Snapshot{}
		if err := r.release(t.Context(), spec(job), &copies{}, s); err != nil || !s.Released {
			t.Errorf("%s is released: %v, %v", job, s.Released, err)
		}
	}
	held("a")
	shared("ns1/a", "{}")
	held("b")
	shared("ns1/a,ns1/b", "{}")

	source.Data[corev1.DockerConfigJsonKey] = []byte(`{"auths":{}}`)
	if err := c.Update(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	held("b")
	shared("ns1/a,ns1/b", `{"auths":{}}`)

	released("a")
	shared("ns1/b", `{"auths":{}}`)
	released("b")
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: secretNamespace, Name: name}, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("the copy is still there: %v", err)
	}
	released("b") // once more, when that was not noted
}

// OpenKruise gave its copies random names. A taken-over job leaves its copies when done, and other Secrets alone.
func TestCopiesOfOpenKruiseAreReleased(t *testing.T) {
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	foreign := func(name, references string) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: name}}
		if references != "" {
			s.Annotations = map[string]string{annotationReferences: references, annotationSource: "ns1/regcred", annotationMode: modeShared}
		}
		return s
	}
	c := fake.NewClientBuilder().WithScheme(types).WithObjects(
		foreign("regcred-x7k2pq", "ns1/a"), foreign("regcred-b81m3z", "ns1/a,ns1/b"), foreign("other-c92nmk", "ns2/a"), foreign("own", ""),
	).Build()
	r := New(workload.Dependencies{Client: c, Live: inPages(c), Clock: clock.RealClock{}, WriteTimeout: time.Minute})
	spec := plan.Parse(&appsv1beta1.ImagePullJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: "a", Finalizers: []string{plan.Finalizer}},
		Spec:       appsv1beta1.ImagePullJobSpec{Image: "nginx", ImagePullJobTemplate: appsv1beta1.ImagePullJobTemplate{PullSecrets: []string{"regcred"}}},
	})
	if err := r.release(t.Context(), spec, &copies{}, &plan.Snapshot{}); err != nil {
		t.Fatal(err)
	}
	left := &corev1.SecretList{}
	if err := c.List(t.Context(), left, client.InNamespace(secretNamespace)); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for i := range left.Items {
		got[left.Items[i].Name] = left.Items[i].Annotations[annotationReferences]
	}
	if diff := cmp.Diff(map[string]string{"regcred-b81m3z": "ns1/b", "other-c92nmk": "ns2/a", "own": ""}, got); diff != "" {
		t.Errorf("copies that are left, and their jobs:\n%s", diff)
	}
}

// inPages is a server with one object per list page, whatever the limit.
func inPages(c client.WithWatch) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			asked := (&client.ListOptions{}).ApplyOptions(options)
			after := asked.Continue
			asked.Continue = ""
			if err := c.List(ctx, list, asked); err != nil {
				return err
			}
			if page, ok := list.(*metav1.PartialObjectMetadataList); ok {
				page.Items = slices.DeleteFunc(page.Items, func(o metav1.PartialObjectMetadata) bool { return o.Name <= after })
				if len(page.Items) > 1 {
					page.Items = page.Items[:1]
					page.Continue = page.Items[0].Name
				}
			}
			return nil
		},
	})
}

// A denial with the code 404 would look like a gone copy, and the credentials would stay for ever.
func TestACopyWhoseDeletionIsDeniedIsNotReleased(t *testing.T) {
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: copyName("ns1", "regcred"), Annotations: map[string]string{
		annotationReferences: "ns1/a", annotationSource: "ns1/regcred", annotationMode: modeShared,
	}}}
	denies := true
	c := fake.NewClientBuilder().WithScheme(types).WithObjects(copied).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			if denies {
				return &apierrors.StatusError{ErrStatus: metav1.Status{
					Code: 404, Reason: metav1.StatusReasonNotFound, Message: `admission webhook "w.example.com" denied the request: no owner is known`,
				}}
			}
			return c.Delete(ctx, object, options...)
		},
	}).Build()
	r := New(workload.Dependencies{Client: c, Live: c, Clock: clock.RealClock{}, WriteTimeout: time.Minute})
	spec := plan.Parse(&appsv1beta1.ImagePullJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: "a", Finalizers: []string{plan.Finalizer}},
		Spec:       appsv1beta1.ImagePullJobSpec{Image: "nginx", ImagePullJobTemplate: appsv1beta1.ImagePullJobTemplate{PullSecrets: []string{"regcred"}}},
	})
	known, s := &copies{}, &plan.Snapshot{}
	if err := r.release(t.Context(), spec, known, s); err == nil || s.Released {
		t.Errorf("released: %v, %v", s.Released, err)
	}
	denies = false
	if err := r.release(t.Context(), spec, known, s); err != nil || !s.Released {
		t.Errorf("later it is released: %v, %v", s.Released, err)
	}
}
