// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// firstRetry and lastRetry are when to try again after an error of the API server: the wait doubles. It stays within the minute,
	// because the operator gives up what its node says nothing about.
	firstRetry = 500 * time.Millisecond
	lastRetry  = 50 * time.Second
)

// AddController adds a controller of a feature. Passes have no time limit: their context ends with the daemon.
func (h Host) AddController(name string, workers int, r reconcile.Reconciler, watched ...source.Source) error {
	c, err := controller.New(name, h.Manager, controller.Options{Reconciler: r, MaxConcurrentReconciles: workers, RateLimiter: retries()})
	if err != nil {
		return fmt.Errorf("creating the controller %s: %w", name, err)
	}
	for _, what := range watched {
		if err := c.Watch(what); err != nil {
			return fmt.Errorf("watching %v for the controller %s: %w", what, name, err)
		}
	}
	return nil
}

func retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
}
