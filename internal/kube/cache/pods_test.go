// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// protobuf is the serializer of the cache's encoding.
func protobuf(t testing.TB) runtime.SerializerInfo {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		t.Fatal("there is no serializer of protobuf")
	}
	return info
}

// fullPod has each dropped field, more than once, and neighbors of them.
func fullPod(name string) *corev1.Pod {
	pod := controlledAs(name, "apps.kruise.io/v1beta1", "StatefulSet")
	pod.Annotations = map[string]string{"a": "b"}
	for range 3 {
		pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(strings.Repeat("f", 300))})
	}
	pod.Finalizers = []string{"example.com/kept"}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady}, {Key: corev1.TaintNodeUnreachable}}
	pod.Spec.HostAliases = []corev1.HostAlias{{IP: "10.0.0.1"}}
	pod.Spec.NodeName = "node-1"
	mode := int32(0o644)
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "kube-api-access-x", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: &mode,
			Sources:     []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}, {ConfigMap: &corev1.ConfigMapProjection{}}},
		}}},
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-web-0"}}},
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.2"}
	return pod
}

// unread trims a pod.
func unread(pod *corev1.Pod) {
	pod.ManagedFields, pod.Spec.Tolerations = nil, nil
	for i := range pod.Spec.Volumes {
		if projected := pod.Spec.Volumes[i].Projected; projected != nil {
			projected.Sources = nil
		}
	}
}

// served is a manager's cache. Its server lists one pod and then sends others, over the
// dialer's connections.
func served(t *testing.T, open dial, listed *corev1.Pod, watched func(send func(*corev1.Pod))) (context.Context, ctrlcache.Cache) {
	t.Helper()
	info := protobuf(t)
	encode := func(object runtime.Object) []byte {
		encoded, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), object)
		if err != nil {
			t.Error(err)
		}
		return encoded
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		switch {
		case r.URL.Path != "/api/v1/pods" || !strings.HasPrefix(r.Header.Get("Accept"), runtime.ContentTypeProtobuf):
			t.Errorf("%s of %s", r.Header.Get("Accept"), r.URL)
			w.WriteHeader(http.StatusNotFound)
		case query.Get("sendInitialEvents") == "true": // as servers answer that cannot do so
			w.WriteHeader(http.StatusUnprocessableEntity)
		case query.Get("watch") == "true":
			w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
			watched(func(pod *corev1.Pod) {
				event := &metav1.WatchEvent{Type: string(watch.Added), Object: runtime.RawExtension{Raw: encode(pod)}}
				if err := info.StreamSerializer.Encode(event, info.StreamSerializer.NewFrameWriter(w)); err != nil {
					t.Error(err)
				}
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
			})
			<-r.Context().Done()
		default:
			w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
			_, _ = w.Write(encode(&corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Pod{*listed}}))
		}
	}))
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel) // before the server waits for the watch
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(podKind(), meta.RESTScopeNamespace)
	c, err := New(&rest.Config{Host: server.URL, Dial: open}, ctrlcache.Options{
		Scheme: scheme.Scheme, Mapper: mapper,
		ByObject: map[client.Object]ctrlcache.ByObject{&corev1.Pod{}: {Transform: trimUnless(func(client.Object) bool { return true }, nil)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetInformer(ctx, &corev1.Pod{}, ctrlcache.BlockUntilSynced(false)); err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.Start(ctx) }()
	if !c.WaitForCacheSync(ctx) {
		t.Fatal("the cache does not fill")
	}
	return ctx, c
}

func TestTheCacheHoldsPodsWithoutWhatNoKindReads(t *testing.T) {
	listed, watched := fullPod("listed"), fullPod("watched")
	ctx, c := served(t, nil, listed, func(send func(*corev1.Pod)) { send(watched) })
	for _, full := range []*corev1.Pod{listed, watched} {
		got := &corev1.Pod{}
		err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			err := c.Get(ctx, client.ObjectKeyFromObject(full), got)
			return err == nil, client.IgnoreNotFound(err)
		})
		if err != nil {
			t.Fatalf("pod %s: %s", full.Name, err)
		}
		unread(full)
		full.SetGroupVersionKind(podKind()) // which the cache fills in
		if diff := cmp.Diff(full, got); diff != "" {
			t.Errorf("pod %s (-want +got):\n%s", full.Name, diff)
		}
	}
}
