// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NewClient returns a client that reads no answer to the deletion of an object given as PartialObjectMetadata. That of controller-runtime decodes the
// whole object that was deleted, and encodes it and decodes it once more: a twentieth of what it costs to replace a pod.
func NewClient(config *rest.Config, options client.Options) (client.Client, error) {
	c, err := client.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("making the client: %w", err)
	}
	deletes := metadata.ConfigFor(config)
	if options.HTTPClient == nil {
		if options.HTTPClient, err = rest.HTTPClientFor(deletes); err != nil {
			return nil, fmt.Errorf("making the client that deletes: %w", err)
		}
	}
	m, err := metadata.NewForConfigAndClient(deletes, options.HTTPClient)
	if err != nil {
		return nil, fmt.Errorf("making the client that deletes: %w", err)
	}
	return &deleting{Client: c, metadata: m}, nil
}

type deleting struct {
	client.Client
	metadata metadata.Interface
}

// Delete implements client.Writer.
func (d *deleting) Delete(ctx context.Context, object client.Object, given ...client.DeleteOption) error {
	partial, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return d.Client.Delete(ctx, object, given...)
	}
	kind := partial.GroupVersionKind()
	mapping, err := d.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return fmt.Errorf("finding where objects of %s are deleted: %w", kind, err)
	}
	options := client.DeleteOptions{}
	options.ApplyOptions(given)
	return d.metadata.Resource(mapping.Resource).Namespace(partial.Namespace).Delete(ctx, partial.Name, *options.AsDeleteOptions())
}
