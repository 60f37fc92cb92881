// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// firstRetry and lastRetry are when to try again after an error of the API server: the wait doubles. It stays within the minute,
	// because the operator gives up what its node says nothing about.
	firstRetry = 500 * time.Millisecond
	lastRetry  = 50 * time.Second
)

// NewController returns a controller of a feature, without watches. Passes have no time limit: their context ends with the daemon.
func (h Host) NewController(name string, workers int, r reconcile.Reconciler) (controller.Controller, error) {
	c, err := controller.New(name, h.Manager, controller.Options{Reconciler: r, MaxConcurrentReconciles: workers, RateLimiter: retries()})
	if err != nil {
		return nil, fmt.Errorf("creating the controller %s: %w", name, err)
	}
	return c, nil
}

func retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
}
