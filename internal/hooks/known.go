// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// knownPatience is the wait for an unknown revision: API servers
	// may learn of its webhook first. knownStep is between looks.
	knownPatience = 2 * time.Second
	knownStep     = 10 * time.Millisecond
)

// Known watches the hooks' revisions on every replica. The function returns whether one exists, without reading.
func Known(mgr ctrl.Manager, namespace string, failed cache.WatchErrorHandlerWithContext) (func(ctx context.Context, name string) bool, error) {
	watches, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("watching the revisions of hooks: %w", err)
	}
	only := func(o *metav1.ListOptions) { o.LabelSelector = OwnLabel }
	resource := appsv1.SchemeGroupVersion.WithResource("controllerrevisions")
	informer := metadatainformer.NewFilteredMetadataInformer(watches, resource, namespace, 0, cache.Indexers{}, only).Informer()
	if err = informer.SetWatchErrorHandlerWithContext(failed); err == nil {
		err = mgr.Add(everywhere(informer.RunWithContext))
	}
	if err != nil {
		return nil, fmt.Errorf("watching the revisions of hooks: %w", err)
	}
	return known(informer.GetStore(), namespace), nil
}

// known looks into a store, and waits a moment for a missing name.
func known(store cache.Store, namespace string) func(ctx context.Context, name string) bool {
	return func(ctx context.Context, name string) bool {
		return wait.PollUntilContextTimeout(ctx, knownStep, knownPatience, true, func(context.Context) (bool, error) {
			_, found, err := store.GetByKey(namespace + "/" + name)
			return found, err
		}) == nil
	}
}

// everywhere runs on every replica.
type everywhere func(context.Context)

// Start implements manager.Runnable.
func (e everywhere) Start(ctx context.Context) error {
	e(ctx)
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (e everywhere) NeedLeaderElection() bool { return false }
