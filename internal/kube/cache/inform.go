// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// Inform calls changed whenever one of some objects comes, changes or goes, until ctx ends. It sees
// metadata only. failed hears of errors; nil: they are logged.
func Inform(
	ctx context.Context, client metadata.Interface, resource schema.GroupVersionResource, namespace string, only func(*metav1.ListOptions),
	failed cache.WatchErrorHandlerWithContext, changed func(),
) error {
	informer := metadatainformer.NewFilteredMetadataInformer(client, resource, namespace, 0, cache.Indexers{}, only).Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() },
	})
	if err == nil && failed != nil {
		err = informer.SetWatchErrorHandlerWithContext(failed)
	}
	if err != nil {
		return fmt.Errorf("watching %s: %w", resource.Resource, err)
	}
	go informer.RunWithContext(ctx)
	return nil
}

// Named selects the object of a name.
func Named(name string) func(*metav1.ListOptions) {
	return func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
}
