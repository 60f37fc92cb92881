// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/testutil/listserver"
)

const mb = 1 << 20

// maps are n ConfigMaps of about so many bytes each.
func maps(n, size int) [][]byte {
	var all [][]byte
	for i := range n {
		all = append(all, fmt.Appendf(nil, `{"metadata":{"name":"m%d","labels":{"only":"first"}},"data":{"a":"%s"}}`, i, strings.Repeat("x", size)))
	}
	return all
}

// serverOf is a server with these ConfigMaps.
func serverOf(objects ...[][]byte) *listserver.Server {
	return &listserver.Server{Lists: map[schema.GroupVersionKind][][]byte{corev1.SchemeGroupVersion.WithKind("ConfigMap"): slices.Concat(objects...)}}
}

func types(t *testing.T) *runtime.Scheme {
	t.Helper()
	return scheme.Scheme
}

func TestRead(t *testing.T) {
	limits := pages.Limits{Objects: 1000, Bytes: 16 * mb}
	for name, tc := range map[string]struct {
		has    [][]byte
		limits pages.Limits
		seen   int
		more   bool
		asked  []int64
	}{
		"an empty list":                                    {limits: limits, asked: []int64{500}},
		"a few small objects are one question":             {has: maps(20, 1000), limits: limits, seen: 20, asked: []int64{500}},
		"many small objects are read 500 at a time":        {has: maps(700, 1000), limits: limits, seen: 700, asked: []int64{500, 500}},
		"no more objects than the limit":                   {has: maps(700, 10), limits: pages.Limits{Objects: 600, Bytes: mb}, seen: 600, more: true, asked: []int64{500, 100}},
		"exactly as many as the limit":                     {has: maps(600, 10), limits: pages.Limits{Objects: 600, Bytes: mb}, seen: 600, asked: []int64{500, 100}},
		"large objects are read one at a time":             {has: maps(6, 3*mb/2), limits: limits, seen: 6, asked: []int64{500, 1, 1, 1, 1, 1, 1}},
		"no more bytes than the limit":                     {has: maps(500, 3*mb/2), limits: limits, seen: 8, more: true, asked: []int64{500, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		"an object larger than an answer may be ends it":   {has: slices.Concat(maps(2, 10), maps(1, 5*mb), maps(2, 10)), limits: limits, seen: 2, more: true, asked: []int64{500, 1, 4, 1, 1}},
		"large objects after many small ones":              {has: slices.Concat(maps(300, 10), maps(300, mb)), limits: pages.Limits{Objects: 1000, Bytes: 24 * mb}, seen: 311, more: true},
		"small objects after a large one are read at once": {has: slices.Concat(maps(3, 3*mb/2), maps(400, 100)), limits: limits, seen: 403, asked: []int64{500, 1, 1, 1, 1, 4, 16, 64, 125, 125, 125}},
		"objects that do not fit into one answer":          {has: maps(500, 10_000), limits: limits, seen: 500, asked: []int64{500, 1, 4, 16, 64, 64, 64, 64, 64, 64, 64, 64}},
	} {
		t.Run(name, func(t *testing.T) {
			server := serverOf(tc.has)
			seen := map[string]bool{}
			more, err := pages.Read(t.Context(), server.Client(t, types(t), pages.Bound), &corev1.ConfigMapList{}, tc.limits, func(list *corev1.ConfigMapList) bool {
				for i := range list.Items {
					seen[list.Items[i].Name+fmt.Sprint(len(list.Items[i].Data["a"]))] = true
				}
				return true
			})
			if err != nil || len(seen) != tc.seen || more != tc.more {
				t.Errorf("seen %d, more: %v, %v", len(seen), more, err)
			}
			if tc.asked != nil && !slices.Equal(server.Asked, tc.asked) {
				t.Errorf("asked for %v objects", server.Asked)
			}
			if server.Sent > tc.limits.Bytes+len(server.Asked) {
				t.Errorf("read %d bytes", server.Sent)
			}
		})
	}
}

// TestReadStops: whoever looks has seen enough, or nobody waits any more, or the server refuses.
func TestReadStops(t *testing.T) {
	limits := pages.Limits{Objects: 5000, Bytes: 16 * mb}
	t.Run("when enough has been seen", func(t *testing.T) {
		server := serverOf(maps(2000, 10))
		more, err := pages.Read(t.Context(), server.Client(t, types(t), pages.Bound), &corev1.ConfigMapList{}, limits, func(*corev1.ConfigMapList) bool { return false })
		if !more || err != nil || len(server.Asked) != 1 {
			t.Errorf("more: %v, %v, %d questions", more, err, len(server.Asked))
		}
	})
	t.Run("when nobody waits any more", func(t *testing.T) {
		server := serverOf(maps(2000, 10))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		more, err := pages.Read(ctx, server.Client(t, types(t), pages.Bound), &corev1.ConfigMapList{}, limits, func(*corev1.ConfigMapList) bool { cancel(); return true })
		if !more || !errors.Is(err, context.Canceled) || len(server.Asked) != 1 {
			t.Errorf("more: %v, %v, %d questions", more, err, len(server.Asked))
		}
	})
	t.Run("when the server refuses", func(t *testing.T) {
		server := serverOf()
		_, err := pages.Read(t.Context(), server.Client(t, types(t), pages.Bound), &corev1.SecretList{}, limits, func(*corev1.SecretList) bool { return true })
		if err == nil {
			t.Error("there is an answer")
		}
	})
}

// TestReadOfMetadata: every page has the requested kind.
func TestReadOfMetadata(t *testing.T) {
	server := serverOf(maps(600, 10))
	like := &metav1.PartialObjectMetadataList{}
	like.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	seen := 0
	more, err := pages.Read(t.Context(), server.Client(t, types(t), pages.Bound), like, pages.Limits{Objects: 1000, Bytes: mb}, func(list *metav1.PartialObjectMetadataList) bool {
		seen += len(list.Items)
		return true
	}, client.InNamespace("default"))
	if more || err != nil || seen != 600 {
		t.Errorf("seen %d, more: %v, %v", seen, more, err)
	}
}

// TestOtherReadsAreNotBounded: only Read sets limits.
func TestOtherReadsAreNotBounded(t *testing.T) {
	list := &corev1.ConfigMapList{}
	if err := serverOf(maps(10, mb)).Client(t, types(t), pages.Bound).List(t.Context(), list); err != nil || len(list.Items) != 10 {
		t.Errorf("%d objects, %v", len(list.Items), err)
	}
}
