// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package reconcilertest gives a reconciler a fake server that is its cache as well, so that the cache is never behind.
package reconcilertest

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

// Limit is when a test that waits for something gives up.
const Limit = 30 * time.Second

// Fake is what a reconciler works with.
type Fake struct {
	workload.Dependencies
	Server *testutil.Client
	Events *events.FakeRecorder
}

// Options say what a fake server knows.
type Options struct {
	// Entry is the reconciled kind, and Object one of it. The cache has what the kind needs.
	Entry  kinds.Kind
	Object client.Object
	// Controlled are further kinds whose objects are found by their controller.
	Controlled []client.Object
	// Stored are the objects that the server has.
	Stored []client.Object
}

// New returns a Fake whose server has the objects.
func New(t testing.TB, o Options) Fake {
	t.Helper()
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	m := metrics.New(prometheus.NewRegistry())
	withStatus := append([]client.Object{&corev1.Pod{}, o.Object}, o.Controlled...)
	server, err := testutil.NewIndexedClient(known, withStatus, func(i client.FieldIndexer) error {
		for _, object := range o.Controlled {
			if err := cache.IndexByController(t.Context(), i, object); err != nil {
				return err
			}
		}
		return cache.ContentsFor(o.Entry).Index(t.Context(), i)
	}, o.Stored...)
	if err != nil {
		t.Fatal(err)
	}
	recorder := events.NewFakeRecorder(10000)
	return Fake{
		Server: server, Events: recorder,
		Dependencies: workload.Dependencies{
			Client: server, Cache: view{&informertest.FakeInformers{Scheme: known}, server}, Live: server, Recorder: recorder,
			Metrics: m, Pool: writer.NewPool(32), Clock: clock.RealClock{}, Scope: o.Entry.Scope, Workers: 3,
			Markers: workload.NewParsed(probing.ParseStored), WriteTimeout: Limit, ReconcileTimeout: 2 * Limit,
		},
	}
}

// view is the cache: what the server holds, and informers that hold nothing.
type view struct {
	*informertest.FakeInformers
	client.Reader
}

func (v view) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return v.Reader.Get(ctx, key, o, opts...)
}

func (v view) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	return v.Reader.List(ctx, l, opts...)
}
