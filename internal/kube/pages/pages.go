// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package pages reads lists and objects that users write, within bounds. A limit on their number alone bounds no memory: 500 objects of the largest
// size are 750 MB.
//
// The bytes of an answer are counted while they arrive, and an answer that is too long is not read to its end. Nothing else knows the size of an object
// before it is in memory, and counting costs nothing. Pages that start small and grow would bound nothing either, since a large object may follow
// many small ones. So nearly every list is one question, and only a list that is too long for one answer is read in small pages.
package pages

import (
	"context"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Most is how many objects one question asks for at most.
	Most = 500
	// longest is how many bytes one answer may have: as many as the API server takes for one object, of which etcd usually stores half.
	longest = 3 << 20
	// growth is how many times more objects the next question asks for after an answer of no more than short bytes. After an answer that was too long it
	// asks for one, and then never for more than the growth-th part of what was too long, so that few answers are.
	growth, short = 4, longest / (2 * growth)
	// mostQuestions is how many questions one reading may take.
	mostQuestions = 50
)

// Limits are what one reading may take.
type Limits struct {
	// Objects is how many objects are read at most.
	Objects int
	// Bytes is how many bytes the API server may send in all, as it encodes them, answers that are too long included. It needs a client that Bound was
	// called for; others have no such limit.
	Bytes int
}

// Read reads a list in the order of the server, which is that of the names, and has look see page after page until it returns false. like is an empty list
// of the type and kind that is wanted. Every page is a new list, so that nothing is left of the page before. more says that objects
// are left that look has not seen, because it returned false or because the limits are reached. An error leaves the rest unseen, too.
func Read[T any, L interface {
	*T
	client.ObjectList
}](ctx context.Context, reader client.Reader, like L, limits Limits, look func(L) bool, options ...client.ListOption) (more bool, err error) {
	ask := client.ListOptions{}
	ask.ApplyOptions(options)
	size, most, left := Most, Most, limits
	for range mostQuestions {
		if left.Objects <= 0 || left.Bytes <= 0 {
			return true, nil
		}
		if err := ctx.Err(); err != nil {
			return true, err
		}
		size = min(size, left.Objects)
		ask.Limit = int64(size)
		page, counted := new(T), &answer{limit: min(longest, left.Bytes)}
		*page = *like
		err := reader.List(context.WithValue(ctx, answerKey{}, counted), L(page), &ask)
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
		left.Objects -= meta.LenList(L(page))
		ask.Continue = L(page).GetContinue()
		if goOn := look(L(page)); !goOn || ask.Continue == "" {
			return ask.Continue != "", nil
		}
		if counted.read <= short {
			size = min(size*growth, most)
		}
	}
	return true, nil
}

// Budget is how many bytes the API server may send for several objects together, with clients that Bound was called for.
type Budget struct{ Bytes int }

// Get reads an object. fits is false, and nothing is known about the object, when it has more bytes than are left.
func (b *Budget) Get(ctx context.Context, reader client.Reader, key client.ObjectKey, into client.Object) (fits bool, err error) {
	if b.Bytes <= 0 {
		return false, nil
	}
	counted := &answer{limit: min(longest, b.Bytes)}
	err = reader.Get(context.WithValue(ctx, answerKey{}, counted), key, into)
	b.Bytes -= counted.read
	if counted.cut {
		return false, nil
	}
	return true, err
}

// Bound makes clients that are made from a configuration stop reading an answer that is longer than Read or a Budget allows. All else they read as ever.
func Bound(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &bounded{next: next} })
}

// answerKey is the key of an answer in the context of a request.
type answerKey struct{}

// answer is how much of an answer has been read, and how much may be.
type answer struct {
	limit, read int
	// cut says that there was more.
	cut bool
}

type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
	if counted, found := request.Context().Value(answerKey{}).(*answer); found && err == nil {
		counted.read, counted.cut = 0, false // the client asks again after an answer that says so
		response.Body = &body{ReadCloser: response.Body, answer: counted}
	}
	return response, err
}

// WrappedRoundTripper lets client-go look through.
func (b *bounded) WrappedRoundTripper() http.RoundTripper { return b.next }

// body ends where the answer becomes too long. It ends as others do: the client logs every error of reading, and fails to decode what has no end
// just as well.
type body struct {
	io.ReadCloser
	answer *answer
}

func (b *body) Read(into []byte) (int, error) {
	if b.answer.cut {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(into[:min(len(into), b.answer.limit-b.answer.read+1)])
	b.answer.read += n
	if b.answer.read > b.answer.limit {
		b.answer.cut = true
		return n, io.EOF
	}
	return n, err
}
