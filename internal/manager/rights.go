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

// releaseMemoryDelay is how long after the caches are filled the memory that filling them took is given back to the system.
const releaseMemoryDelay = 10 * time.Second

// filling reports on the caches of one manager while they are being filled. No reconciler runs before they are filled, not even the one of the Kruise
// object. Without these reports, an operator that may not read something would wait in silence.
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
	// The lists were decoded completely and then trimmed. In a large cluster, several times the memory that the caches keep is free now. Informers that
	// have just synced still hold the objects that they hand on to controllers, so the memory is given back a little later.
	select {
	case <-ctx.Done():
	case <-time.After(releaseMemoryDelay):
		debug.FreeOSMemory()
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (f *filling) NeedLeaderElection() bool { return false }

// fault says what keeps the caches from being filled; nil when nothing that keeps them is known.
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

// Check is the readiness check: a version that lacks rights does not take the place of one that has them. Rights that are lost later do not
// make the operator unready, because admission goes on working.
func (f *filling) Check(*http.Request) error { return f.fault() }

// report writes faults into the status of the Kruise object, if there is one, until the caches are filled or ctx is done. From then on the reconciler
// of that object writes its status.
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

// reportFault says in the status of the Kruise object that nothing is managed.
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
