// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Write is one write on its way to the server.
type Write struct {
	// Verb is create, patch, apply or delete.
	Verb        string
	Object      client.Object
	Subresource string
	// Patch is the body of a patch.
	Patch string
	// DeleteOptions are those of a delete.
	DeleteOptions client.DeleteOptions
	// ApplyOptions are those of an apply.
	ApplyOptions client.ApplyOptions
}

// Fault decides what becomes of a write: forward sends it. A fault that fails after forward loses the answer; one that fails
// without it refuses the write; one that waits delays it.
type Fault func(ctx context.Context, write Write, forward func() error) error

// Client is a fake API server with faults. It is safe for concurrent use.
type Client struct {
	client.WithWatch

	mu     sync.Mutex
	fault  Fault
	writes []Write
}

// NewClient returns a Client that holds objects and knows the types of scheme. Statuses are subresources of the kinds of objects
// in withStatus.
func NewClient(scheme *runtime.Scheme, withStatus []client.Object, objects ...client.Object) *Client {
	return newClient(fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(withStatus...).WithObjects(objects...))
}

// NewIndexedClient is NewClient with indexes; addIndexes adds them as it does to a manager's cache.
func NewIndexedClient(scheme *runtime.Scheme, withStatus []client.Object, addIndexes func(client.FieldIndexer) error,
	objects ...client.Object,
) (*Client, error) {
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(withStatus...).WithObjects(objects...)
	if err := addIndexes(indexer{builder}); err != nil {
		return nil, err
	}
	return newClient(builder), nil
}

// indexer adds indexes to a fake server.
type indexer struct{ builder *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	i.builder.WithIndex(object, field, extract)
	return nil
}

func newClient(builder *fake.ClientBuilder) *Client {
	c := &Client{}
	base := builder.Build()
	c.WithWatch = interceptor.NewClient(base, interceptor.Funcs{
		Create: func(ctx context.Context, to client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			return c.send(ctx, Write{Verb: "create", Object: object}, func() error { return to.Create(ctx, object, opts...) })
		},
		Patch: func(ctx context.Context, to client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			body, err := patch.Data(object)
			if err != nil {
				return err
			}
			if patch.Type() == types.ApplyPatchType {
				return c.apply(ctx, to, object, body, opts)
			}
			return c.send(ctx, Write{Verb: "patch", Object: object, Patch: string(body)}, func() error {
				return to.Patch(ctx, object, patch, opts...)
			})
		},
		SubResourcePatch: func(ctx context.Context, to client.Client, sub string, object client.Object, patch client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			body, err := patch.Data(object)
			if err != nil {
				return err
			}
			return c.send(ctx, Write{Verb: "patch", Object: object, Subresource: sub, Patch: string(body)}, func() error {
				return to.SubResource(sub).Patch(ctx, object, patch, opts...)
			})
		},
		Apply: func(ctx context.Context, to client.WithWatch, applied runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			object, ok := applied.(client.Object)
			if !ok {
				return fmt.Errorf("a %T is applied: only unstructured objects are", applied)
			}
			options := client.ApplyOptions{}
			options.ApplyOptions(opts)
			return c.send(ctx, Write{Verb: "apply", Object: object, ApplyOptions: options}, func() error {
				return to.Apply(ctx, applied, opts...)
			})
		},
		Delete: func(ctx context.Context, to client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			options := client.DeleteOptions{}
			options.ApplyOptions(opts)
			return c.send(ctx, Write{Verb: "delete", Object: object, DeleteOptions: options}, func() error {
				return to.Delete(ctx, object, opts...)
			})
		},
	})
	return c
}

// apply carries out an apply whose answer is metadata alone.
func (c *Client) apply(ctx context.Context, to client.WithWatch, answer client.Object, body []byte, opts []client.PatchOption) error {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(body); err != nil {
		return err
	}
	given := (&client.PatchOptions{}).ApplyOptions(opts)
	options := client.ApplyOptions{FieldManager: given.FieldManager, Force: given.Force}
	return c.send(ctx, Write{Verb: "apply", Object: object, ApplyOptions: options}, func() error {
		err := to.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), &options)
		answer.SetResourceVersion(object.GetResourceVersion())
		return err
	})
}

// SetFault makes the following writes go through fault; nil forwards them all.
func (c *Client) SetFault(fault Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = fault
}

// Writes returns all writes so far, in the order in which they began.
func (c *Client) Writes() []Write {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.writes)
}

func (c *Client) send(ctx context.Context, write Write, forward func() error) error {
	c.mu.Lock()
	c.writes = append(c.writes, write)
	fault := c.fault
	c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if fault == nil {
		return forward()
	}
	return fault(ctx, write, forward)
}
