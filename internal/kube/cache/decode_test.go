// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// protobuf is the serializer that the cache reads pods with, or the usual one.
func protobuf(t testing.TB, of runtime.NegotiatedSerializer) runtime.Serializer {
	t.Helper()
	infos := of.SupportedMediaTypes()
	at := slices.IndexFunc(infos, func(info runtime.SerializerInfo) bool { return info.MediaType == runtime.ContentTypeProtobuf })
	if at < 0 {
		t.Fatal("there is no serializer of protobuf")
	}
	return infos[at].Serializer
}

func serializers() (ofPods, usual runtime.NegotiatedSerializer) {
	return newPodSerializers(scheme.Codecs), serializer.WithoutConversionCodecFactory{CodecFactory: scheme.Codecs}
}

// fullPod has each field that is left out, more than once, and neighbors of them.
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

// unread makes a pod what is decoded of it.
func unread(pod *corev1.Pod) {
	pod.ManagedFields, pod.Spec.Tolerations = nil, nil
	for i := range pod.Spec.Volumes {
		if projected := pod.Spec.Volumes[i].Projected; projected != nil {
			projected.Sources = nil
		}
	}
}

func TestWhatNoKindReadsOfPodsIsNotDecoded(t *testing.T) {
	ofPods, usual := serializers()
	pod, list := fullPod("web-0"), &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "next"}}
	list.Items = []corev1.Pod{*fullPod("web-1"), {}, *fullPod("web-2")}
	bookmark := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "8", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", ManagedFields: pod.ManagedFields}}
	status := &metav1.Status{Status: metav1.StatusFailure, Message: "gone", Code: 410}
	for name, object := range map[string]runtime.Object{"pod": pod, "list": list, "bookmark": bookmark, "service": service, "status": status} {
		t.Run(name, func(t *testing.T) {
			encoded, err := runtime.Encode(scheme.Codecs.EncoderForVersion(protobuf(t, usual), corev1.SchemeGroupVersion), object)
			if err != nil {
				t.Fatal(err)
			}
			want := object.DeepCopyObject()
			switch want := want.(type) {
			case *corev1.Pod:
				unread(want)
			case *corev1.PodList:
				for i := range want.Items {
					unread(&want.Items[i])
				}
			}
			decoder := ofPods.DecoderToVersion(protobuf(t, ofPods), corev1.SchemeGroupVersion)
			used := object.DeepCopyObject() // an informer decodes a list into one that may hold something
			for range 2 {                   // with the buffer of the one before
				got, of, err := decoder.Decode(encoded, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("decoded (-want +got):\n%s", diff)
				}
				if _, usually, _ := protobuf(t, usual).Decode(encoded, nil, nil); *of != *usually {
					t.Errorf("the kind is %s, usually %s", of, usually)
				}
				into, _, err := decoder.Decode(encoded, nil, used)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, into); diff != "" || into != used {
					t.Errorf("decoded into one that has content (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestPodsInAnotherEncodingAreDecodedAsUsual(t *testing.T) {
	ofPods, _ := serializers()
	decoder := protobuf(t, ofPods)
	for name, data := range map[string]string{
		"no prefix": `{"apiVersion":"v1","kind":"Pod"}`, "no type": "k8s\x00\x12\x01a", "cut off": "k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x7f\x0a", "empty": "",
	} {
		if got, _, err := decoder.Decode([]byte(data), nil, nil); err == nil {
			t.Errorf("%s: decoded as %v", name, got)
		}
	}
}

// served is the cache of a manager, filled by a server that lists one pod and then sends others, over connections that are opened by the dialer.
func served(t *testing.T, open dial, listed *corev1.Pod, watched func(send func(*corev1.Pod))) (context.Context, ctrlcache.Cache) {
	t.Helper()
	_, usual := serializers()
	infos := usual.SupportedMediaTypes()
	info := infos[slices.IndexFunc(infos, func(info runtime.SerializerInfo) bool { return info.MediaType == runtime.ContentTypeProtobuf })]
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
	c, err := New(&rest.Config{Host: server.URL, Dial: open}, ctrlcache.Options{Scheme: scheme.Scheme, Mapper: mapper})
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

// The cache of the manager lists and watches pods with this decoder: it holds no pod with what no kind reads.
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

// FuzzPodDecoder compares with the usual decoder: what that accepts comes out the same but for what is left out, and nothing panics.
func FuzzPodDecoder(f *testing.F) {
	full, err := fullPod("web-0").Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	f.Add([]byte{0x0a, 0x03, 0x8a, 0x01, 0x00})
	f.Fuzz(func(t *testing.T, data []byte) {
		want, got := &corev1.Pod{}, &corev1.Pod{}
		usual := want.Unmarshal(data)
		shrunk, err := appendWithout(nil, data, unreadOfPods())
		if usual != nil || err != nil { // left to the usual decoder
			return
		}
		if err := got.Unmarshal(shrunk); err != nil {
			t.Fatal(err)
		}
		unread(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
