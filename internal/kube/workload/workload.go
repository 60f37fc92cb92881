// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload holds what the reconcilers of all workloads do around their own observing and planning: reading the stored object,
// waiting for its turn, watching, and telling the user what stopped a pass.
//
// These are pieces that a reconciler calls, in its own order. None of them calls back into one.
package workload

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kruise-operator/kruise-operator/internal/kube/executor"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/history"
	"github.com/kruise-operator/kruise-operator/internal/kube/ownership"
	"github.com/kruise-operator/kruise-operator/internal/kube/pacing"
	"github.com/kruise-operator/kruise-operator/internal/kube/predownload"
	"github.com/kruise-operator/kruise-operator/internal/kube/statuspatch"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
	"github.com/kruise-operator/kruise-operator/internal/platform/takeover"
)

const (
	// Busy is when to come back when the workload's view has changed.
	Busy = 100 * time.Millisecond
	// inLine is when to come back at the latest when the workload's namespace may not have another worker just now. Usually it is woken.
	inLine = 2 * time.Second
)

// Dependencies are what a reconciler is made from.
type Dependencies struct {
	// Client writes, and reads the cache.
	Client client.Client
	// Cache is the cache behind Client; workloads are read from it as they are stored.
	Cache cache.Cache
	// Live reads past the cache.
	Live client.Reader
	// Recorder takes events.
	Recorder events.EventRecorder
	// Metrics are the operator's.
	Metrics *metrics.Metrics
	// Pool is shared with the other controllers of the manager.
	Pool *executor.Pool
	// PullJobs is shared with the other controllers, too; nil when no images are pulled ahead of updates.
	PullJobs *predownload.Watch
	// Accepted are templates that the server would take, shared with admission. Nil remembers none.
	Accepted *templatecheck.Accepted
	// Clock is the time.
	Clock clock.PassiveClock
	// Guard holds passes back while OpenKruise is in charge. Nil never does.
	Guard *takeover.Guard
	// Workers is how many workloads of the kind are reconciled at the same time.
	Workers int
	// WriteTimeout and ReconcileTimeout are deadlines.
	WriteTimeout     time.Duration
	ReconcileTimeout time.Duration
}

// Tools are what a reconciler works with, each made for its kind. They are safe for concurrent use by different workloads.
type Tools struct {
	Dependencies
	// Name is that of the controller, Kind the kind it reconciles, in the version that is stored.
	Name string
	Kind schema.GroupVersionKind

	Tracker  *freshness.Tracker
	Executor *executor.Executor
	History  *history.Store
	Claimer  *ownership.Claimer
	Status   *statuspatch.Writer
	Pacer    *pacing.Pacer
	// Images pulls images ahead of updates; nil when that is off.
	Images *predownload.Jobs
	// Templates remembers what the server said of templates.
	Templates Verdicts

	controller controller.Controller
	// queue is the controller's, once it has started.
	queue atomic.Pointer[queue]
	// late guards the start of watches after that of the manager; informers are those that were started.
	late      sync.Mutex
	informers map[schema.GroupVersionKind]cache.Informer
}

// New returns Tools that watch nothing yet.
func New(name string, kind schema.GroupVersionKind, d Dependencies) *Tools {
	tracker := freshness.New(freshness.Options{Live: d.Live, Clock: d.Clock, Timeout: d.WriteTimeout})
	t := &Tools{
		Dependencies: d, Name: name, Kind: kind,
		Tracker: tracker,
		Executor: executor.New(executor.Options{
			Kind: kind.Kind, Client: d.Client, Live: d.Live, Tracker: tracker, Pool: d.Pool, Recorder: d.Recorder,
			Metrics: d.Metrics, Clock: d.Clock, WriteTimeout: d.WriteTimeout,
		}),
		History: &history.Store{Client: d.Client, Live: d.Live, Tracker: tracker, Timeout: d.WriteTimeout},
		Claimer: &ownership.Claimer{Client: d.Client, Live: d.Live, Tracker: tracker, Timeout: d.WriteTimeout},
		Status: &statuspatch.Writer{
			Client: d.Client, Tracker: tracker, Clock: d.Clock, Interval: statuspatch.DefaultInterval, Timeout: d.WriteTimeout,
		},
		Pacer: pacing.New(d.Clock),
	}
	if d.PullJobs != nil {
		t.Images = &predownload.Jobs{Watch: d.PullJobs, Client: d.Client, History: t.History, Recorder: d.Recorder, Clock: d.Clock}
	}
	return t
}

// Run makes the manager run the reconciler, whose passes wait for the guard. It watches nothing yet.
func (t *Tools) Run(mgr ctrl.Manager, r reconcile.Reconciler) error {
	var err error
	t.controller, err = controller.New(t.Name, mgr, controller.Options{
		Reconciler:              t.Guard.Reconciler(r),
		MaxConcurrentReconciles: t.Workers,
		ReconciliationTimeout:   t.ReconcileTimeout,
		EnableWarmup:            ptr.To(true),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, time.Minute),
	})
	if err != nil {
		return fmt.Errorf("creating the controller: %w", err)
	}
	return nil
}

// Forget drops all that is remembered of a workload that is gone.
func (t *Tools) Forget(name types.NamespacedName) {
	t.Tracker.Forget(name)
	t.Executor.Forget(name)
	t.Status.Forget(name)
	t.Pacer.Forget(name)
	t.Templates.Forget(name)
	if t.Images != nil {
		t.Images.Forget(name)
	}
}

// Turn says whether a workload may be planned now: it is its turn, its namespace may have a worker, and the view contains everything
// written for it. If so, leave has to be called when the pass is over. Otherwise leave is nil: come back after wait.
func (t *Tools) Turn(ctx context.Context, stored *unstructured.Unstructured) (leave func(), wait time.Duration) {
	if paused(stored) {
		return nil, t.reportPaused(ctx, stored)
	}
	name := client.ObjectKeyFromObject(stored)
	if wait := t.Pacer.WaitFor(name, stored.GetGeneration()); wait > 0 {
		return nil, wait
	}
	leave, ok := t.Pool.Enter(t.Name, t.Workers, name, func() { t.wake(name) })
	if !ok {
		return nil, inLine
	}
	wait, err := t.Tracker.Ready(ctx, freshness.OwnerOf(stored))
	if wait == 0 {
		return leave, 0
	}
	leave()
	wait = max(wait, t.Pacer.Waits(name, stored.GetGeneration()))
	t.Metrics.StaleViews.WithLabelValues(t.Kind.Kind).Inc()
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("Waiting: a write is in doubt", "err", err.Error())
	}
	return nil, wait
}

// Earliest returns the shortest of the waits that are above zero.
func Earliest(waits ...time.Duration) time.Duration {
	waits = slices.DeleteFunc(waits, func(d time.Duration) bool { return d <= 0 })
	if len(waits) == 0 {
		return 0
	}
	return slices.Min(waits)
}
