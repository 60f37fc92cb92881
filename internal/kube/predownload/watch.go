// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package predownload

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	kubecache "github.com/kruise-operator/kruise-operator/internal/kube/cache"
)

// Watch is the watch of all ImagePullJobs, their metadata alone. The workloads of all kinds share one. It starts when the first of them
// asks.
type Watch struct {
	cache cache.Cache

	mu       sync.Mutex
	informer cache.Informer // nil before
}

// NewWatch returns an idle Watch.
func NewWatch(c cache.Cache) *Watch { return &Watch{cache: c} }

// errNotSynced: the cache does not hold the jobs yet.
var errNotSynced = errors.New("the cache is being filled")

// started is true once jobs have been asked for.
func (w *Watch) started() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.informer != nil
}

// ready starts the watch if it does not run, and fails with errNotSynced until the cache holds the jobs.
func (w *Watch) ready(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.informer == nil {
		job := &metav1.PartialObjectMetadata{}
		job.SetGroupVersionKind(Kind())
		informer, err := w.cache.GetInformer(ctx, job, cache.BlockUntilSynced(false))
		if err == nil {
			err = kubecache.IndexByController(ctx, w.cache, job)
		}
		if err != nil {
			return fmt.Errorf("watching ImagePullJobs: %w", err)
		}
		w.informer = informer
	}
	if !w.informer.HasSynced() {
		return errNotSynced
	}
	return nil
}
