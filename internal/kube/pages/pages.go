// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package pages reads lists and objects that users write, within bounds. A limit on their number alone bounds no memory: 500 objects of the largest
// size are 750 MB.
//
// The bytes of a response are counted while they arrive, and a response that is too long is not read to its end. Nothing else knows the size of an object
// before it is in memory, and counting costs nothing. Pages that start small and grow would bound nothing either, since a large object may follow
// many small ones. So nearly every list is one request, and only a list that is too long for one response is read in small pages.
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
	// longest is how many bytes one response may have: as many as the API server takes for one object, of which etcd usually stores half.
	longest = 3 << 20
	// growth is how many times more objects the next request asks for after a response of no more than short bytes. A response that was too long is
	// thrown away. The next request asks for one object, and later ones for at most the growth-th part of what was too long, so that few are thrown away.
	growth, short = 4, longest / (2 * growth)
	// maxRequests is how many requests one Read may send.
	maxRequests = 50
)

// Limits are what one Read may take. A limit of 0 reads nothing.
type Limits struct {
	// Objects is how many objects are read at most.
	Objects int
	// Bytes is how many bytes the API server may send in all, as it encodes them, responses that are too long included. It needs a client that Bound was
	// called for; others have no such limit.
	Bytes int
}

// Read reads a list in pages, in the order of the server, which is that of the names. It calls look with each page until look returns false. like is an
// empty list of the type and kind that is wanted. Each page is a new list. more says that objects are left that look was not called with: it
// returned false, or the limits are reached, or there is an error.
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

// All reads a list in pages of MaxObjects objects, in the order of the server, and yields each; an error ends it. It is for lists whose objects are small or
// the operator's own, and of which all are needed: nothing else bounds it. like is as for Read.
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

// Budget is how many bytes the API server may send for several objects together, with clients that Bound was called for.
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

// Bound changes a configuration so that its clients stop reading a response that is longer than Read or a Budget allows. Other requests are not affected.
func Bound(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &bounded{next: next} })
}

// responseKey is the key of a response in the context of a request.
type responseKey struct{}

// response is how much of a response has been read, and how much may be.
type response struct {
	limit, read int
	// cut says that there was more.
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

// body ends where the response becomes too long, without an error: the client would log that, and cannot decode a response that is cut off anyway.
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
