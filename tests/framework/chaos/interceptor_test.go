// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// The operator requests metadata alone of many creations.
func TestNameOfWhatWasCreatedIsReadFromEachEncoding(t *testing.T) {
	types := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(types))
	utilruntime.Must(metav1.AddMetaToScheme(types))
	codecs := serializer.NewCodecFactory(types)
	named := metav1.ObjectMeta{Name: "web-5"}
	metadata := &metav1.PartialObjectMetadata{ObjectMeta: named}
	for _, test := range []struct {
		name, mediaType string
		object          runtime.Object
		version         schema.GroupVersion
	}{
		{"whole object, protobuf", runtime.ContentTypeProtobuf, &corev1.Pod{ObjectMeta: named}, corev1.SchemeGroupVersion},
		{"whole object, JSON", runtime.ContentTypeJSON, &corev1.Pod{ObjectMeta: named}, corev1.SchemeGroupVersion},
		{"metadata, protobuf", runtime.ContentTypeProtobuf, metadata, metav1.SchemeGroupVersion},
		{"metadata, JSON", runtime.ContentTypeJSON, metadata, metav1.SchemeGroupVersion},
	} {
		t.Run(test.name, func(t *testing.T) {
			info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), test.mediaType)
			if !ok {
				t.Fatalf("no encoding for %s", test.mediaType)
			}
			body, err := runtime.Encode(codecs.EncoderForVersion(info.Serializer, test.version), test.object)
			if err != nil {
				t.Fatal(err)
			}
			if name := nameIn(body); name != named.Name {
				t.Errorf("the name read is %q, want %q", name, named.Name)
			}
		})
	}
	if name := nameIn([]byte(`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet","metadata":{"name":"guestbook"}}`)); name != "guestbook" {
		t.Errorf("the name read of an object of our own kinds is %q, want guestbook", name)
	}
}
