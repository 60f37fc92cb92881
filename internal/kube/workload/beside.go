// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// NewController makes a controller without a kind of its own, for instance for pods. Like a
// kind's, it waits for the cache after an election, and while another manager acts on the
// same objects.
func NewController(mgr ctrl.Manager, d Dependencies, name string, workers int, r reconcile.Reconciler) (controller.Controller, error) {
	return newController(mgr, d, name, controller.Options{MaxConcurrentReconciles: workers}, r)
}

// NewPodController makes a controller for the pods of these events.
func NewPodController(mgr ctrl.Manager, d Dependencies, name string, workers int, r reconcile.Reconciler, due predicate.Predicate) (controller.Controller, error) {
	c, err := NewController(mgr, d, name, workers, r)
	if err != nil {
		return nil, err
	}
	if err := c.Watch(source.Kind(d.Cache, client.Object(&corev1.Pod{}), handler.EventHandler(&handler.EnqueueRequestForObject{}), due)); err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	return c, nil
}

// newController makes a controller. It retries after 50 milliseconds, at most after a
// minute.
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
