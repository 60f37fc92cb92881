// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// NewController makes a controller that has no kind of its own, for instance one of pods. As those of kinds, it waits for the cache after an
// election, and while another manager acts on the same objects.
func NewController(mgr ctrl.Manager, d Dependencies, name string, workers int, r reconcile.Reconciler) (controller.Controller, error) {
	return newController(mgr, d, name, controller.Options{MaxConcurrentReconciles: workers}, r)
}

// newController makes a controller. What failed is tried again after 50 milliseconds, later after a minute at most.
func newController(mgr ctrl.Manager, d Dependencies, name string, options controller.Options, r reconcile.Reconciler) (controller.Controller, error) {
	if d.CatchUp != nil {
		r = d.CatchUp.Reconciler(r)
	}
	if d.Guard != nil {
		r = d.Guard(r)
	}
	options.Reconciler, options.ReconciliationTimeout = r, d.ReconcileTimeout
	options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, time.Minute)
	c, err := controller.New(name, mgr, options)
	if err != nil {
		return nil, fmt.Errorf("creating the controller %s: %w", name, err)
	}
	return c, nil
}
