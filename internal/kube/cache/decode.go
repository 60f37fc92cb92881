// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// fields are fields of a protobuf message, by their numbers: nil for one that is left out, and for one that is kept, which of its own are left out.
type fields map[protowire.Number]fields

// unreadOfPods are fields that no kind reads: metadata.managedFields, and two that the server fills in every pod, spec.tolerations and
// spec.volumes[].projected.sources, above all that of the service account's token. The numbers are those of generated.proto in
// k8s.io/api/core/v1 and k8s.io/apimachinery/pkg/apis/meta/v1.
func unreadOfPods() fields {
	return fields{
		1: {17: nil},
		2: {
			1:  {2: {26: {1: nil}}},
			22: nil,
		},
	}
}

// podDecoder decodes pods and lists of them in protobuf without the fields that are left out: an informer would decode them with each event, only
// to drop them then. Whatever else comes is decoded as usual.
type podDecoder struct {
	runtime.Serializer
	// leftOut are fields of a pod.
	leftOut fields
	// buffers are those of messages without what is left out. Decoded objects keep no part of them.
	buffers *sync.Pool
}

// message is an object that is decoded from protobuf.
type message interface {
	runtime.Object
	Unmarshal(data []byte) error
}

// Decode implements runtime.Decoder.
func (d podDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	encoded, kind := podsIn(data)
	object := emptied(kind, into)
	buffer, ok := d.buffers.Get().(*[]byte)
	if object == nil || !ok {
		return d.Serializer.Decode(data, defaults, into)
	}
	defer d.buffers.Put(buffer)
	leftOut := d.leftOut
	if kind == podListKind {
		leftOut = fields{2: leftOut}
	}
	var err error
	if *buffer, err = appendWithout((*buffer)[:0], encoded, leftOut); err != nil {
		return d.Serializer.Decode(data, defaults, into) // which says what is wrong with it
	}
	if err := object.Unmarshal(*buffer); err != nil {
		return nil, nil, fmt.Errorf("decoding a %s: %w", kind, err)
	}
	of := corev1.SchemeGroupVersion.WithKind(kind)
	return object, &of, nil
}

const podListKind = "PodList"

// emptied is an empty object of the kind, into if that is one; nil if it is of another type, or the kind is not one of pods.
func emptied(kind string, into runtime.Object) message {
	switch kind {
	case podKind().Kind:
		if into == nil {
			return &corev1.Pod{}
		}
		if pod, ok := into.(*corev1.Pod); ok {
			*pod = corev1.Pod{}
			return pod
		}
	case podListKind:
		if into == nil {
			return &corev1.PodList{}
		}
		if list, ok := into.(*corev1.PodList); ok {
			*list = corev1.PodList{}
			return list
		}
	}
	return nil
}

// podsIn returns the message of a pod, or of a list of pods, and its kind, from how the API server sends objects in protobuf: a prefix, and a
// message with their type (1), of which the fields are version (1) and kind (2), and the object itself (2). The kind is empty for anything else.
func podsIn(data []byte) (object []byte, kind string) {
	unknown, found := bytes.CutPrefix(data, []byte("k8s\x00"))
	if !found {
		return nil, ""
	}
	of := field(unknown, 1)
	if string(field(of, 1)) != corev1.SchemeGroupVersion.String() || len(field(unknown, 3)) > 0 {
		return nil, ""
	}
	return field(unknown, 2), string(field(of, 2))
}

// field returns the last field of the number in a message, if it is a string or a message.
func field(in []byte, number protowire.Number) (value []byte) {
	for len(in) > 0 {
		n, kind, length := protowire.ConsumeField(in)
		if length < 0 {
			return nil
		}
		if n == number && kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(in)
			value, _ = protowire.ConsumeBytes(in[tag:])
		}
		in = in[length:]
	}
	return value
}

// appendWithout appends a message to a buffer, without the fields that are left out.
func appendWithout(buffer, in []byte, leftOut fields) ([]byte, error) {
	for len(in) > 0 {
		number, kind, length := protowire.ConsumeField(in)
		if length < 0 {
			return buffer, protowire.ParseError(length)
		}
		within, concerned := leftOut[number]
		switch {
		case !concerned || len(within) > 0 && kind != protowire.BytesType:
			buffer = append(buffer, in[:length]...)
		case len(within) > 0:
			_, _, tag := protowire.ConsumeTag(in)
			inner, _ := protowire.ConsumeBytes(in[tag:length])
			buffer = append(buffer, in[:tag]...)
			// The length comes before the content, and is known only after it.
			start := len(buffer)
			buffer = append(buffer, in[tag:length-len(inner)]...)
			content := len(buffer)
			var err error
			if buffer, err = appendWithout(buffer, inner, within); err != nil {
				return buffer, err
			}
			size := len(buffer) - content
			prefix := protowire.AppendVarint(buffer[:start], uint64(size))
			copy(buffer[len(prefix):], buffer[content:content+size])
			buffer = buffer[:len(prefix)+size]
		}
		in = in[length:]
	}
	return buffer, nil
}

// podSerializers are the serializers of the scheme. Their decoder of protobuf leaves out fields of pods.
type podSerializers struct {
	serializer.WithoutConversionCodecFactory
	buffers *sync.Pool
}

func newPodSerializers(codecs serializer.CodecFactory) podSerializers {
	return podSerializers{serializer.WithoutConversionCodecFactory{CodecFactory: codecs}, &sync.Pool{New: func() any { return new([]byte) }}}
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (s podSerializers) SupportedMediaTypes() []runtime.SerializerInfo {
	infos := slices.Clone(s.WithoutConversionCodecFactory.SupportedMediaTypes())
	for i := range infos {
		if infos[i].MediaType == runtime.ContentTypeProtobuf {
			infos[i].Serializer = podDecoder{infos[i].Serializer, unreadOfPods(), s.buffers}
			stream := infos[i].StreamSerializer
			infos[i].StreamSerializer = &runtime.StreamSerializerInfo{
				EncodesAsText: stream.EncodesAsText, Serializer: stream.Serializer, Framer: buffered{stream.Framer},
			}
		}
	}
	return infos
}

// podLists lists and watches all pods of the cluster without what no kind reads of them, on a connection of its own: that of all other requests must
// not pause.
func podLists(config *rest.Config, scheme *runtime.Scheme) (*toolscache.ListWatch, error) {
	config = rest.CopyConfig(config)
	config.Dial = pausing(config.Dial)
	config.APIPath, config.GroupVersion, config.ContentType = "/api", &corev1.SchemeGroupVersion, runtime.ContentTypeProtobuf
	config.NegotiatedSerializer = newPodSerializers(serializer.NewCodecFactory(scheme))
	reading, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making the client that reads pods: %w", err)
	}
	parameters := runtime.NewParameterCodec(scheme)
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := &corev1.PodList{}
			return list, reading.Get().Resource("pods").VersionedParams(&options, parameters).Do(ctx).Into(list)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.Watch, options.AllowWatchBookmarks = true, true
			return reading.Get().Resource("pods").VersionedParams(&options, parameters).Watch(ctx)
		},
	}, nil
}

// New is the [ctrlcache.New] of a manager. Of pods it reads all of the cluster, whatever the options select, without the fields that no kind reads.
func New(config *rest.Config, options ctrlcache.Options) (ctrlcache.Cache, error) {
	pods, err := podLists(config, options.Scheme)
	if err != nil {
		return nil, err
	}
	newInformer := options.NewInformer
	if newInformer == nil {
		newInformer = toolscache.NewSharedIndexInformer
	}
	options.NewInformer = func(
		lists toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		if _, isPod := object.(*corev1.Pod); isPod {
			lists = pods
		}
		return newInformer(lists, object, resync, indexers)
	}
	return ctrlcache.New(config, options)
}
