// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	kubecache "github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// rightsInterval is how often missing read permissions are reported while the caches are being filled.
const rightsInterval = 2 * time.Second

// releaseMemoryDelay is the wait before returning the memory used to fill the caches.
const releaseMemoryDelay = 10 * time.Second

// filling reports on one manager's caches until they are filled. No reconciler runs before, not even the Kruise
// object's: without reports, an operator lacking a right would wait in silence.
type filling struct {
	denied *kubecache.Denied
	// filled is closed when they are filled.
	filled chan struct{}
}

func newFilling(denied *kubecache.Denied) *filling {
	return &filling{denied: denied, filled: make(chan struct{})}
}

// Start implements manager.Runnable. The manager calls it when the caches are filled, because it does not need the lease.
func (f *filling) Start(ctx context.Context) error {
	close(f.filled)
	// Filling decodes whole lists and then trims them, so several times the caches' memory is now free. Informers
	// still hand objects on to controllers just after syncing; so wait a little.
	select {
	case <-ctx.Done():
	case <-time.After(releaseMemoryDelay):
		debug.FreeOSMemory()
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (f *filling) NeedLeaderElection() bool { return false }

// fault explains why the caches are not filled; nil when no cause is known.
func (f *filling) fault() error {
	select {
	case <-f.filled:
		return nil
	default:
	}
	if messages := f.denied.Messages(); len(messages) > 0 {
		return fmt.Errorf("the operator may not read what it needs: %s", strings.Join(messages, "; "))
	}
	return nil
}

// Check is the readiness check: a version lacking rights never replaces one with them. Losing rights later
// leaves the operator ready, as admission goes on.
func (f *filling) Check(*http.Request) error { return f.fault() }

// report writes faults into an existing Kruise object's status until the caches are filled or ctx is done. Then
// the object's reconciler takes over.
func (f *filling) report(ctx context.Context, direct client.Client) {
	tick := time.NewTicker(rightsInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.filled:
			return
		case <-tick.C:
		}
		if fault := f.fault(); fault != nil {
			if err := reportFault(ctx, direct, fault); err != nil {
				ctrl.Log.WithName("setup").Info("The Kruise object does not say what may not be read", "err", err.Error())
			}
		}
	}
}

// reportFault writes into the Kruise object's status: nothing is managed.
func reportFault(ctx context.Context, direct client.Client, fault error) error {
	object, _, err := config.Load(ctx, direct)
	if err != nil || object == nil {
		return err
	}
	next := object.DeepCopy()
	changed := meta.SetStatusCondition(&next.Status.Conditions, metav1.Condition{
		Type: operatorv1alpha1.KruiseAvailable, Status: metav1.ConditionFalse, Reason: operatorv1alpha1.ReasonKindsNotReady,
		Message: "not managed: " + fault.Error(), ObservedGeneration: object.Generation,
	})
	if !changed {
		return nil
	}
	if err := direct.Status().Patch(ctx, next, client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the status: %w", client.IgnoreNotFound(err))
	}
	return nil
}
