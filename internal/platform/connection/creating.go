// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// MetadataOnlyResponse is an option of Create: the caller needs nothing of the answer but its metadata. The client of NewClient does not request more then, for
// a typed object of Kubernetes' own kinds: the object keeps the spec and status that were sent. For other objects, and with other clients, it is the
// whole answer.
type MetadataOnlyResponse struct{}

// ApplyToCreate implements client.CreateOption.
func (MetadataOnlyResponse) ApplyToCreate(*client.CreateOptions) {}

// metadataTypes are the media types in which the metadata of an object is requested; JSON is for servers that have nothing else.
const metadataTypes = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// creators create objects and read the metadata of the answers.
type creators struct {
	config     *rest.Config
	http       *http.Client
	scheme     *runtime.Scheme
	parameters runtime.ParameterCodec

	mu      sync.RWMutex
	clients map[schema.GroupVersionKind]rest.Interface
}

// newCreators returns creators of the objects that have an encoding in protobuf, which are Kubernetes' own.
func newCreators(config *rest.Config, httpClient *http.Client) (*creators, error) {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, metav1.AddMetaToScheme} {
		if err := add(types); err != nil {
			return nil, fmt.Errorf("registering types: %w", err)
		}
	}
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, metadataTypes
	return &creators{
		config: config, http: httpClient, scheme: types, parameters: runtime.NewParameterCodec(types),
		clients: map[schema.GroupVersionKind]rest.Interface{},
	}, nil
}

// client returns the client for a kind.
func (c *creators) client(kind schema.GroupVersionKind) (rest.Interface, error) {
	c.mu.RLock()
	known, ok := c.clients[kind]
	c.mu.RUnlock()
	if ok {
		return known, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	made, err := apiutil.RESTClientForGVK(kind, false, false, c.config, serializer.NewCodecFactory(c.scheme), c.http)
	if err != nil {
		return nil, fmt.Errorf("making the client that creates objects of %s: %w", kind, err)
	}
	c.clients[kind] = made
	return made, nil
}

// Create implements client.Writer.
func (l *lean) Create(ctx context.Context, object client.Object, given ...client.CreateOption) error {
	metadata := metadataOf(object)
	if metadata == nil || !slices.ContainsFunc(given, isMetadataOnlyResponse) {
		return l.Client.Create(ctx, object, given...)
	}
	kinds, _, err := l.creators.scheme.ObjectKinds(object)
	if err != nil {
		return l.Client.Create(ctx, object, given...) // no kind of Kubernetes' own
	}
	kind := kinds[0]
	mapping, err := l.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return fmt.Errorf("finding where objects of %s are created: %w", kind, err)
	}
	creator, err := l.creators.client(kind)
	if err != nil {
		return err
	}
	var options client.CreateOptions
	options.ApplyOptions(given)
	var answer metav1.PartialObjectMetadata
	err = creator.Post().Namespace(object.GetNamespace()).Resource(mapping.Resource.Resource).
		VersionedParams(options.AsCreateOptions(), l.creators.parameters).Body(object).Do(ctx).Into(&answer)
	if err != nil {
		return err
	}
	*metadata = answer.ObjectMeta
	return nil
}

// metadataOf returns the metadata of a typed object, which can be replaced; nil for any other object.
func metadataOf(object client.Object) *metav1.ObjectMeta {
	accessor, ok := object.(metav1.ObjectMetaAccessor)
	if !ok {
		return nil
	}
	typed, _ := accessor.GetObjectMeta().(*metav1.ObjectMeta)
	return typed
}

func isMetadataOnlyResponse(option client.CreateOption) bool {
	_, ok := option.(MetadataOnlyResponse)
	return ok
}
