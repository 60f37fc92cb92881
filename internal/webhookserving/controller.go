// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
)

const (
	// checkEvery is how often everything is looked at without an event: when a certificate is to be renewed, there is none.
	checkEvery = time.Hour
	// firstRetry and lastRetry bound the wait after a failure.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// SetupWithManager watches, on every replica, the authority's Secret, the Deployment with the version to own it,
// and all configurations calling the operator. It also answers about written CRDs.
//
// Each is watched alone, by name, metadata only. So rights can name the objects, no Secret stays in memory, and
// others' CRDs cost nothing. Any event compares everything: a handful of reads.
func (s *Serving) SetupWithManager(mgr ctrl.Manager) error {
	client, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("watching what leads to the operator: %w", err)
	}
	keeper, err := controller.New("webhook-trust", mgr, controller.Options{
		Reconciler:         s,
		NeedLeaderElection: ptr.To(false),
		RateLimiter:        workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	})
	if err != nil {
		return fmt.Errorf("watching what leads to the operator: %w", err)
	}
	watch := func(resource schema.GroupVersionResource, namespace, name string) error {
		return keeper.Watch(source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			return cache.Inform(ctx, client, resource, namespace, cache.Named(name), nil, func() { queue.Add(reconcile.Request{NamespacedName: s.name(ServiceName)}) })
		}))
	}
	mgr.GetWebhookServer().Register(definitionPath, &admission.Webhook{Handler: admission.HandlerFunc(s.inFlight)})
	secret := s.secret()
	if err := watch(corev1.SchemeGroupVersion.WithResource("secrets"), secret.Namespace, secret.Name); err != nil {
		return fmt.Errorf("watching Secret %s: %w", secret, err)
	}
	if s.mounted {
		if err := watch(appsv1.SchemeGroupVersion.WithResource("deployments"), s.options.Endpoint.Namespace, deployment); err != nil {
			return fmt.Errorf("watching Deployment %s: %w", deployment, err)
		}
	}
	for _, t := range s.targets() {
		if err := watch(t.resource, "", t.name); err != nil {
			return fmt.Errorf("watching %s %s: %w", t.kind, t.name, err)
		}
	}
	return nil
}

// Reconcile compares everything with its wanted state, and repairs it.
func (s *Serving) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	return reconcile.Result{RequeueAfter: checkEvery}, errors.Join(s.refresh(ctx), s.keep(ctx))
}
