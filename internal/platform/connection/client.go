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

// NewClient returns a client that decodes less of the answers than that of controller-runtime:
//
//   - Nothing of the answer to the deletion of an object given as PartialObjectMetadata. Otherwise the whole object that was deleted would be decoded,
//     encoded, and decoded once more: a twentieth of what it costs to replace a pod.
//   - The metadata alone of the answer to a creation with MetadataOnlyResponse.
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
	creators, err := newCreators(config, options.HTTPClient)
	if err != nil {
		return nil, err
	}
	return &lean{Client: c, metadata: m, creators: creators}, nil
}

type lean struct {
	client.Client
	metadata metadata.Interface
	creators *creators
}

// Delete implements client.Writer.
func (l *lean) Delete(ctx context.Context, object client.Object, given ...client.DeleteOption) error {
	partial, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return l.Client.Delete(ctx, object, given...)
	}
	kind := partial.GroupVersionKind()
	mapping, err := l.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return fmt.Errorf("finding where objects of %s are deleted: %w", kind, err)
	}
	options := client.DeleteOptions{}
	options.ApplyOptions(given)
	return l.metadata.Resource(mapping.Resource).Namespace(partial.Namespace).Delete(ctx, partial.Name, *options.AsDeleteOptions())
}
