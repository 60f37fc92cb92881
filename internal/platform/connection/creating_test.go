// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

// creation is what a server got, and what it answers.
type creation struct {
	method, path, query, accept string
	body                        []byte

	status int
	media  string
	answer []byte
}

// ServeHTTP implements http.Handler.
func (c *creation) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.method, c.path, c.query, c.accept = r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Accept")
	c.body, _ = io.ReadAll(r.Body)
	w.Header().Set("Content-Type", c.media)
	w.WriteHeader(c.status)
	_, _ = w.Write(c.answer)
}

// creatingAt returns a client of the server, and the types that it knows.
func creatingAt(t testing.TB, server http.Handler) (client.Client, *runtime.Scheme) {
	t.Helper()
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := metav1.AddMetaToScheme(types); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(v1beta1.GroupVersion().WithKind("CloneSet"), meta.RESTScopeNamespace)
	at := httptest.NewServer(server)
	t.Cleanup(at.Close)
	c, err := NewClient(&rest.Config{Host: at.URL, QPS: -1}, client.Options{Scheme: types, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	return c, types
}

// encoded is an object as a server sends it.
func encoded(t testing.TB, types *runtime.Scheme, media string, object runtime.Object) []byte {
	t.Helper()
	for _, info := range serializer.NewCodecFactory(types).SupportedMediaTypes() {
		if info.MediaType != media {
			continue
		}
		kinds, _, err := types.ObjectKinds(object)
		if err != nil {
			t.Fatal(err)
		}
		object.GetObjectKind().SetGroupVersionKind(kinds[0])
		data, err := runtime.Encode(info.Serializer, object)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	t.Fatalf("no serializer of %s", media)
	return nil
}

func newPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Labels: map[string]string{"sent": "true"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main:1"}}},
	}
}

func TestOfACreatedPodOnlyTheMetadataIsRequested(t *testing.T) {
	stored := metav1.ObjectMeta{
		Namespace: "ns", Name: "a", UID: "uid", ResourceVersion: "7", Generation: 1,
		Labels: map[string]string{"sent": "true"}, Annotations: map[string]string{"added-by": "another webhook"},
	}
	for _, media := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		t.Run(media, func(t *testing.T) {
			server := &creation{status: http.StatusCreated, media: media}
			c, types := creatingAt(t, server)
			server.answer = encoded(t, types, media, &metav1.PartialObjectMetadata{ObjectMeta: stored})
			pod := newPod()
			if err := c.Create(t.Context(), pod, MetadataOnlyResponse{}, client.FieldOwner("somebody"), client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			want := newPod()
			want.ObjectMeta = stored
			if diff := cmp.Diff(want, pod); diff != "" {
				t.Errorf("the pod (-want +got):\n%s", diff)
			}
			if server.method != http.MethodPost || server.path != "/api/v1/namespaces/ns/pods" || server.query != "dryRun=All&fieldManager=somebody" {
				t.Errorf("%s %s?%s", server.method, server.path, server.query)
			}
			for kind := range strings.SplitSeq(server.accept, ",") {
				if !strings.HasSuffix(kind, ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1") {
					t.Errorf("%q is accepted", kind)
				}
			}
			sent := &corev1.Pod{}
			if _, _, err := protobuf.NewSerializer(types, types).Decode(server.body, nil, sent); err != nil {
				t.Fatalf("the body: %v", err)
			}
			if diff := cmp.Diff(newPod().Spec, sent.Spec); diff != "" {
				t.Errorf("the spec that was sent (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWholeAnswersToCreations(t *testing.T) {
	changed := newPod()
	changed.Spec.NodeName = "chosen"
	set := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "uid"}}
	for name, c := range map[string]struct {
		object, answer client.Object
		options        []client.CreateOption
	}{
		"nothing else was asked for": {newPod(), changed, nil},
		"a kind without protobuf":    {&v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}, set, []client.CreateOption{MetadataOnlyResponse{}}},
	} {
		t.Run(name, func(t *testing.T) {
			server := &creation{status: http.StatusCreated, media: runtime.ContentTypeJSON}
			creating, types := creatingAt(t, server)
			server.answer = encoded(t, types, runtime.ContentTypeJSON, c.answer)
			if err := creating.Create(t.Context(), c.object, c.options...); err != nil {
				t.Fatal(err)
			}
			c.object.GetObjectKind().SetGroupVersionKind(c.answer.GetObjectKind().GroupVersionKind())
			if diff := cmp.Diff(c.answer, c.object); diff != "" {
				t.Errorf("the object (-want +got):\n%s", diff)
			}
			if strings.Contains(server.accept, "PartialObjectMetadata") {
				t.Errorf("%q is accepted", server.accept)
			}
		})
	}
}

// A server answers errors as they are, whatever was asked for.
func TestARefusedCreation(t *testing.T) {
	refusal := apierrors.NewAlreadyExists(corev1.Resource("pods"), "a").Status()
	for _, media := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		server := &creation{status: http.StatusConflict, media: media}
		c, types := creatingAt(t, server)
		metav1.AddToGroupVersion(types, metav1.Unversioned)
		server.answer = encoded(t, types, media, &refusal)
		pod := newPod()
		if err := c.Create(t.Context(), pod, MetadataOnlyResponse{}); !apierrors.IsAlreadyExists(err) {
			t.Errorf("%s: the error is %v", media, err)
		}
		if diff := cmp.Diff(newPod(), pod); diff != "" {
			t.Errorf("%s: the pod changed (-want +got):\n%s", media, diff)
		}
	}
}

// BenchmarkCreate is what a creation costs the client, with a pod of a few kilobytes.
func BenchmarkCreate(b *testing.B) {
	pod := newPod()
	for _, name := range []string{"a", "b", "c"} {
		container := corev1.Container{Name: name, Image: "example.com/" + name + ":1", Args: []string{"--address=:8080", "--verbose"}}
		for _, variable := range []string{"A", "B", "C", "D", "E", "F"} {
			container.Env = append(container.Env, corev1.EnvVar{Name: variable, Value: "some value of " + variable})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
	}
	stored := pod.DeepCopy()
	stored.UID, stored.ResourceVersion = "uid", "7"
	for name, c := range map[string]struct {
		answer  client.Object
		options []client.CreateOption
	}{
		"whole":    {stored, nil},
		"metadata": {&metav1.PartialObjectMetadata{ObjectMeta: stored.ObjectMeta}, []client.CreateOption{MetadataOnlyResponse{}}},
	} {
		b.Run(name, func(b *testing.B) {
			server := &creation{status: http.StatusCreated, media: runtime.ContentTypeProtobuf}
			creating, types := creatingAt(b, server)
			server.answer = encoded(b, types, runtime.ContentTypeProtobuf, c.answer)
			b.ReportAllocs()
			for b.Loop() {
				if err := creating.Create(b.Context(), pod.DeepCopy(), c.options...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
