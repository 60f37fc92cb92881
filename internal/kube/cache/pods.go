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

// podLists lists and watches all pods. Pods of interest that were read again join the watch.
func podLists(reading *rest.RESTClient, parameters runtime.ParameterCodec, interests *Interests) *toolscache.ListWatch {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			interests.relay.listing()
			list := &corev1.PodList{}
			return list, reading.Get().Resource("pods").VersionedParams(&options, parameters).Do(ctx).Into(list)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.Watch, options.AllowWatchBookmarks = true, true
			if options.SendInitialEvents != nil && *options.SendInitialEvents {
				interests.relay.listing()
			}
			from, err := reading.Get().Resource("pods").VersionedParams(&options, parameters).Watch(ctx)
			if err != nil {
				return nil, err
			}
			return interests.relay.watch(from, options), nil
		},
	}
}

// New returns the [ctrlcache.NewCacheFunc] of a manager. It reads all pods of the cluster, whatever the options select.
func New(interests *Interests) ctrlcache.NewCacheFunc {
	return func(config *rest.Config, options ctrlcache.Options) (ctrlcache.Cache, error) {
		reading, err := podsClient(config, options.Scheme)
		if err != nil {
			return nil, err
		}
		parameters := runtime.NewParameterCodec(options.Scheme)
		pods := podLists(reading, parameters, interests)
		interests.list = func(ctx context.Context, namespace string, options metav1.ListOptions) (*corev1.PodList, error) {
			list := &corev1.PodList{}
			return list, reading.Get().Namespace(namespace).Resource("pods").VersionedParams(&options, parameters).Do(ctx).Into(list)
		}
		newInformer := options.NewInformer
		if newInformer == nil {
			newInformer = toolscache.NewSharedIndexInformer
		}
		options.NewInformer = func(
			lists toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers,
		) toolscache.SharedIndexInformer {
			if _, isPod := object.(*corev1.Pod); !isPod {
				return newInformer(lists, object, resync, indexers)
			}
			informer := newInformer(pods, object, resync, indexers)
			interests.show(informer.GetStore())
			return informer
		}
		return ctrlcache.New(config, options)
	}
}
