// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package pages reads users' lists and objects within bounds. A limit on their number
// bounds no memory: 500 objects of the largest size are 750 MB.
//
// It counts a response's bytes as they arrive and stops reading one too long: nothing else
// knows an object's size before it is in memory, and counting costs nothing. Growing pages
// would bound nothing: a large object may follow many small ones. So nearly every list is
// one request, and only one too long for a response is read in small pages.
package pages

import (
	"context"
	"io"
	"iter"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// MaxObjects is how many objects one request asks for at most.
	MaxObjects = 500
	// longest is the longest response, in bytes: the API server's limit for one object,
	// twice what etcd usually stores.
	longest = 3 << 20
	// growth is the factor of the next page after a response of at most short bytes. A
	// response too long is thrown away; then the next request asks for one object, and
	// later ones for at most 1/growth of it, so few are thrown away.
	growth, short = 4, longest / (2 * growth)
	// maxRequests is how many requests one Read may send.
	maxRequests = 50
)

// Limits bound one Read. A limit of 0 reads nothing.
type Limits struct {
	// Objects is how many objects are read at most.
	Objects int
	// Bytes bounds the API server's encoded responses in all, those too long included. It
	// needs a client of a Bound configuration; others have no such limit.
	Bytes int
}

// Read reads a list in pages, in the server's order, by name, and calls look with each, a
// new list, until look returns false. like is an empty list of the wanted type and kind.
// more is true if objects are left: look returned false, the limits are reached, or there
// is an error.
func Read[L client.ObjectList](ctx context.Context, reader client.Reader, like L, limits Limits, look func(L) bool, options ...client.ListOption) (more bool, err error) {
	ask := client.ListOptions{}
	ask.ApplyOptions(options)
	size, most, left := MaxObjects, MaxObjects, limits
	for range maxRequests {
		if left.Objects <= 0 || left.Bytes <= 0 {
			return true, nil
		}
		if err := ctx.Err(); err != nil {
			return true, err
		}
		size = min(size, left.Objects)
		ask.Limit = int64(size)
		counted := &response{limit: min(longest, left.Bytes)}
		page, _ := like.DeepCopyObject().(L) // A list without types has its kind in a map.
		err := reader.List(context.WithValue(ctx, responseKey{}, counted), page, &ask)
		left.Bytes -= counted.read
		switch {
		case counted.cut && size == 1:
			return true, nil
		case counted.cut:
			most = max(1, size/growth)
			size = 1
			continue
		case err != nil:
			return true, err
		}
		left.Objects -= meta.LenList(page)
		ask.Continue = page.GetContinue()
		if goOn := look(page); !goOn || ask.Continue == "" {
			return ask.Continue != "", nil
		}
		if counted.read <= short {
			size = min(size*growth, most)
		}
	}
	return true, nil
}

// All reads a list in pages of MaxObjects, in the server's order, and yields each object;
// an error ends it. Nothing else bounds it: use it for small objects or the operator's own,
// if all are needed. like is as for Read.
func All[L client.ObjectList](ctx context.Context, reader client.Reader, like L, options ...client.ListOption) iter.Seq2[L, error] {
	return func(yield func(L, error) bool) {
		ask := client.ListOptions{}
		ask.ApplyOptions(options)
		ask.Limit = MaxObjects
		for {
			page, _ := like.DeepCopyObject().(L)
			err := reader.List(ctx, page, &ask)
			ask.Continue = page.GetContinue()
			if !yield(page, err) || err != nil || ask.Continue == "" {
				return
			}
		}
	}
}

// Budget bounds the API server's bytes for several objects together, with clients of a
// Bound configuration.
type Budget struct{ Bytes int }

// Get reads an object. fits is false, and nothing is known about the object, when it has more bytes than are left.
func (b *Budget) Get(ctx context.Context, reader client.Reader, key client.ObjectKey, into client.Object) (fits bool, err error) {
	if b.Bytes <= 0 {
		return false, nil
	}
	counted := &response{limit: min(longest, b.Bytes)}
	err = reader.Get(context.WithValue(ctx, responseKey{}, counted), key, into)
	b.Bytes -= counted.read
	if counted.cut {
		return false, nil
	}
	return true, err
}

// Bound makes a configuration's clients stop reading a response longer than Read or a
// Budget allows. It does not affect other requests.
func Bound(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &bounded{next: next} })
}

// responseKey is the key of a response in the context of a request.
type responseKey struct{}

// response is how much of a response has been read, and how much may be.
type response struct {
	limit, read int
	// cut: there was more.
	cut bool
}

type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	got, err := b.next.RoundTrip(request)
	if counted, found := request.Context().Value(responseKey{}).(*response); found && err == nil {
		counted.read, counted.cut = 0, false // the client repeats a request when the response asks for it
		got.Body = &body{ReadCloser: got.Body, response: counted}
	}
	return got, err
}

// WrappedRoundTripper lets client-go look through.
func (b *bounded) WrappedRoundTripper() http.RoundTripper { return b.next }

// body ends an overlong response without an error: the client would log it, and cannot
// decode the rest anyway.
type body struct {
	io.ReadCloser
	response *response
}

func (b *body) Read(into []byte) (int, error) {
	if b.response.cut {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(into[:min(len(into), b.response.limit-b.response.read+1)])
	b.response.read += n
	if b.response.read > b.response.limit {
		b.response.cut = true
		return n, io.EOF
	}
	return n, err
}
