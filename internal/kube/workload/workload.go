// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload has the steps that the reconcilers of all workloads share, besides their own observing and planning: reading the stored
// object, pacing, watching, and reporting why a pass cannot begin.
//
// A reconciler calls these functions in its own order. None of them calls back into it.
package workload

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/apiservers"
	kubecache "github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/catchup"
	"github.com/kruise-operator/kruise-operator/internal/kube/executor"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/history"
	"github.com/kruise-operator/kruise-operator/internal/kube/ownership"
	"github.com/kruise-operator/kruise-operator/internal/kube/predownload"
	"github.com/kruise-operator/kruise-operator/internal/kube/statuspatch"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
)

const (
	// Busy is when to come back when the workload's view has changed.
	Busy = 100 * time.Millisecond
	// waitForWorker is when to come back at the latest when the workload's namespace may not have another worker just now. Usually it is enqueued before.
	waitForWorker = 2 * time.Second
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
	Pool *writer.Pool
	// Hooks registers hooks on requests for objects of others.
	Hooks *hooks.Registrar
	// Servers are the API servers, each by itself.
	Servers *apiservers.Servers
	// PullJobs is shared with the other controllers, too; nil when no images are pulled ahead of updates.
	PullJobs *predownload.Watch
	// PullsImages says that ImagePullJobs are carried out.
	PullsImages bool
	// DaemonNeeds are the objects that need the node daemon for now, of all kinds; nil where there is none.
	DaemonNeeds *DaemonNeeds
	// Markers are the PodProbeMarkers that were parsed, shared by all that read them.
	Markers *Parsed[*probing.Marker]
	// Accepted are templates that the server would take, shared with admission. Nil remembers none.
	Accepted *templatecheck.Accepted
	// LaunchOrder says that the containers of pods start in the order that the pods ask for.
	LaunchOrder bool
	// Denied is what the server does not let the cache read. Nil: it lets everything be read.
	Denied *kubecache.Denied
	// Clock is the time.
	Clock clock.PassiveClock
	// Guard wraps a reconciler so that its passes wait while another manager acts on the same objects. Nil: none ever waits.
	Guard func(reconcile.Reconciler) reconcile.Reconciler
	// CatchUp lets the passes of a new leader wait until its cache holds what the server had at the election. Nil: none ever waits.
	CatchUp *catchup.Gate
	// Scope says whether objects of the kind lie in namespaces; empty: they do.
	Scope kinds.Scope
	// Workers is how many workloads of the kind are reconciled at the same time.
	Workers int
	// WriteTimeout and ReconcileTimeout are deadlines.
	WriteTimeout     time.Duration
	ReconcileTimeout time.Duration
}

// Base is what a reconciler works with, each part made for its kind. It is safe for concurrent use by different objects.
type Base struct {
	Dependencies
	// Name is that of the controller, Kind the kind it reconciles, in the version that is stored.
	Name string
	Kind schema.GroupVersionKind

	Tracker  *freshness.Tracker
	Writer   *writer.Writer
	Executor *executor.Executor
	History  *history.Store
	Adopter  *ownership.Adopter
	Status   *statuspatch.Writer
	// Images pulls images ahead of updates; nil when that is off.
	Images *predownload.Jobs

	memories   memories
	controller controller.Controller
	// objects is how many objects of the kind its watch has shown.
	objects atomic.Int64
	// queue is the controller's, once it has started.
	queue atomic.Pointer[queue]
	// late guards the start of watches after that of the manager; informers are those that were started.
	late      sync.Mutex
	informers map[schema.GroupVersionKind]cache.Informer
}

// New returns a Base that watches nothing yet.
func New(name string, kind schema.GroupVersionKind, d Dependencies) *Base {
	b := &Base{Dependencies: d, Name: name, Kind: kind}
	tracker := freshness.New(freshness.Options{
		Live: d.Live, Clock: d.Clock, Timeout: d.WriteTimeout,
		Records: func(owner freshness.Owner) *freshness.Record { return &b.memories.of(owner).writes },
	})
	w := &writer.Writer{Client: d.Client, Live: d.Live, Tracker: tracker, Timeout: d.WriteTimeout}
	b.Tracker, b.Writer = tracker, w
	options := executor.Options{Kind: kind.GroupKind(), Writer: w, Pool: d.Pool, Recorder: d.Recorder, Metrics: d.Metrics, Clock: d.Clock}
	if d.LaunchOrder {
		options.Prepare = b.orderContainers
	}
	b.Executor = executor.New(options)
	b.History = &history.Store{Client: d.Client, Writer: w}
	b.Adopter = &ownership.Adopter{Writer: w}
	b.Status = &statuspatch.Writer{Writer: w, Clock: d.Clock, Interval: statuspatch.DefaultInterval}
	if d.PullJobs != nil {
		b.Images = &predownload.Jobs{
			Watch: d.PullJobs, Client: d.Client, History: b.History, Recorder: d.Recorder, Clock: d.Clock,
			Writer: &writer.Writer{Client: d.Client, Live: d.Live, Timeout: predownload.Timeout},
		}
		if d.PullsImages {
			b.Images.Status = b.pullStatus
		}
	}
	return b
}

// pullStatus reads the status of an ImagePullJob from the cache that their reconciler fills.
func (b *Base) pullStatus(ctx context.Context, name types.NamespacedName) (*appsv1beta1.ImagePullJobStatus, error) {
	stored := Object(predownload.Kind())
	if err := b.Cache.Get(ctx, name, stored, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("reading the ImagePullJob: %w", err)
	}
	job, err := decode[appsv1beta1.ImagePullJob](stored)
	if err != nil {
		return nil, fmt.Errorf("decoding the ImagePullJob: %w", err)
	}
	return &job.Status, nil
}

// Setup makes the manager run the reconciler, and starts the watches of its kind and of what else its objects depend on.
func (b *Base) Setup(ctx context.Context, mgr ctrl.Manager, r reconcile.Reconciler, watches Watches) (err error) {
	if b.controller, err = newController(mgr, b.Dependencies, b.Name, controller.Options{MaxConcurrentReconciles: b.Workers, EnableWarmup: ptr.To(true)}, r); err != nil {
		return err
	}
	b.Metrics.Objects.Count(b.Kind.Kind, b.states)
	return b.watchAll(ctx, watches)
}
