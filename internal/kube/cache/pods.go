// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// podsClient reads pods on its own connection: other requests must not pause.
func podsClient(config *rest.Config, scheme *runtime.Scheme) (*rest.RESTClient, error) {
	config = rest.CopyConfig(config)
	config.Dial = pausing(config.Dial)
	config.APIPath, config.GroupVersion, config.ContentType = "/api", &corev1.SchemeGroupVersion, runtime.ContentTypeProtobuf
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	reading, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making the client that reads pods: %w", err)
	}
	return reading, nil
}

// podLists lists and watches all pods.
func podLists(reading *rest.RESTClient, parameters runtime.ParameterCodec) *toolscache.ListWatch {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := &corev1.PodList{}
			return list, reading.Get().Resource("pods").VersionedParams(&options, parameters).Do(ctx).Into(list)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.Watch, options.AllowWatchBookmarks = true, true
			return reading.Get().Resource("pods").VersionedParams(&options, parameters).Watch(ctx)
		},
	}
}

// New is the [ctrlcache.NewCacheFunc] of a manager. It reads all pods of the cluster, whatever the options select.
func New(config *rest.Config, options ctrlcache.Options) (ctrlcache.Cache, error) {
	reading, err := podsClient(config, options.Scheme)
	if err != nil {
		return nil, err
	}
	pods := podLists(reading, runtime.NewParameterCodec(options.Scheme))
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
