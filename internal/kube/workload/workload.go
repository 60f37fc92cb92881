// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload has the steps all workloads' reconcilers share besides observing and
// planning: reading the stored object, pacing, watching, and reporting why a pass cannot
// begin.
//
// A reconciler calls these functions in its own order. None of them calls back into it.
package workload

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/apiservers"
	kubecache "github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/catchup"
	"github.com/kruise-operator/kruise-operator/internal/kube/executor"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/history"
	"github.com/kruise-operator/kruise-operator/internal/kube/ownership"
	"github.com/kruise-operator/kruise-operator/internal/kube/statuspatch"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
)

const (
	// Busy is when to come back when the workload's view has changed.
	Busy = 100 * time.Millisecond
	// waitForWorker is when to come back at the latest when the workload's namespace may not have another worker just now. Usually it is enqueued before.
	waitForWorker = 2 * time.Second
)

// Dependencies are a reconciler's parts.
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
	Pool *writer.Pool
	// Hooks registers hooks on requests for objects of others.
	Hooks *hooks.Registrar
	// Servers are the API servers, each by itself.
	Servers *apiservers.Servers
	// PullsImages: ImagePullJobs are carried out.
	PullsImages bool
	// Budgets are asked before pods are disrupted; nil if nobody serves them.
	Budgets *Budgets
	// DaemonNeeds are the current objects of all kinds in need of the node daemon; nil if
	// there is no daemon.
	DaemonNeeds *DaemonNeeds
	// Markers are the parsed PodProbeMarkers, shared by all readers.
	Markers *Parsed[*probing.Marker]
	// Spreads are the parsed WorkloadSpreads, shared likewise; nil when the kind is off or not served.
	Spreads *Parsed[*spread.Spread]
	// LaunchOrder starts pods' containers in the pods' order.
	LaunchOrder bool
	// Denied are refused reads of the cache. Nil: there are none.
	Denied *kubecache.Denied
	// PodPlaces: PersistentPodStates make new pods return to their places.
	PodPlaces bool
	// Clock is the time.
	Clock clock.PassiveClock
	// Guard makes a reconciler's passes wait while another manager acts on the same
	// objects. Nil: none waits.
	Guard func(reconcile.Reconciler) reconcile.Reconciler
	// CatchUp makes a new leader's passes wait until its cache holds the server's state at
	// the election. Nil: none waits.
	CatchUp *catchup.Gate
	// Scope is the kind's; empty: namespaced.
	Scope kinds.Scope
	// Workers is how many workloads of the kind are reconciled at the same time.
	Workers int
	// WriteTimeout and ReconcileTimeout are deadlines.
	WriteTimeout     time.Duration
	ReconcileTimeout time.Duration
}

// Base has a reconciler's tools, each made for its kind. It is safe for concurrent use by
// different objects.
type Base struct {
	Dependencies
	// Name is the controller's, Kind its kind in the stored version.
	Name string
	Kind schema.GroupVersionKind

	Tracker    *freshness.Tracker
	Writer     *writer.Writer
	Executor   *executor.Executor
	History    *history.Store
	Adopter    *ownership.Adopter
	Status     *statuspatch.Writer
	memories   memories
	controller controller.Controller
	// objects is how many objects of the kind its watch has shown.
	objects atomic.Int64
	// queue is the controller's, once it has started.
	queue atomic.Pointer[queue]
	// late guards watches started after the manager; informers are the started ones.
	late      sync.Mutex
	informers map[schema.GroupVersionKind]cache.Informer
}

// New returns a Base without watches.
func New(name string, kind schema.GroupVersionKind, d Dependencies) *Base {
	b := &Base{Dependencies: d, Name: name, Kind: kind}
	w := &writer.Writer{Client: d.Client, Live: d.Live, Timeout: d.WriteTimeout}
	w.Tracker = freshness.New(w.Look, d.Clock, func(owner freshness.Owner) *freshness.Record { return &b.memories.of(owner).writes })
	b.Tracker, b.Writer = w.Tracker, w
	options := executor.Options{Kind: kind.GroupKind(), Writer: w, Pool: d.Pool, Recorder: d.Recorder, Metrics: d.Metrics, Clock: d.Clock, Slice: executor.Slice}
	if d.LaunchOrder {
		options.Prepare = b.orderContainers
	}
	b.Executor = executor.New(options)
	b.History = &history.Store{Client: d.Client, Writer: w}
	b.Adopter = &ownership.Adopter{Writer: w}
	b.Status = &statuspatch.Writer{Writer: w, Clock: d.Clock, Interval: statuspatch.DefaultInterval}
	return b
}

// Setup runs the reconciler in the manager, and starts its watches.
func (b *Base) Setup(ctx context.Context, mgr ctrl.Manager, r reconcile.Reconciler, watches Watches) (err error) {
	if b.controller, err = newController(mgr, b.Dependencies, b.Name, controller.Options{MaxConcurrentReconciles: b.Workers, EnableWarmup: ptr.To(true)}, r); err != nil {
		return err
	}
	b.Metrics.Objects.Add(b.states)
	return b.watchAll(ctx, watches)
}
