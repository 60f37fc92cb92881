// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package daemon is the process that runs on every node while something needs it: it pulls images ahead of need, restarts containers, carries
// out probes, and reports what containers were created from.
//
// What it promises:
//
//   - It watches objects of its own node only, so that what it costs does not depend on the size of the cluster.
//   - It keeps no state in memory that it needs: after a restart of itself, of the runtime or of the kubelet it continues from the objects and
//     from what the runtime reports.
//   - It answers /healthz as long as it runs, even when the runtime fails, since a restart would not help. /readyz says whether it has read its
//     objects and the runtime answers.
//
// A feature is a package of its own below this one, and one line in workers.go. What the daemon may do is in config/rbac/daemon/roles.yaml, and
// docs/operations/node-daemon.md says what an attacker with its token can do.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
	"github.com/kruise-operator/kruise-operator/internal/platform/connection"
	"github.com/kruise-operator/kruise-operator/internal/platform/logging"
	"github.com/kruise-operator/kruise-operator/internal/platform/mapper"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/platform/version"
)

// Name is the name of the daemon, of its account, and the reportingController of its events.
const Name = "kruise-daemon"

// Host is what a worker of the node daemon is given.
type Host = host.Host

// Worker is one feature of the daemon; added by one line in workers.go.
type Worker = host.Worker

const (
	// graceful is how long work that is under way has to end. What the runtime was asked for goes on without the daemon.
	graceful = 5 * time.Second
	// answering is how long the runtime may take to answer for the daemon to be ready.
	answering = 2 * time.Second
	// releaseMemoryEvery is how often memory is given back that is not used any more. Each time costs some milliseconds: a collection of the heap, and the
	// pages that are used again.
	releaseMemoryEvery = time.Minute
)

// Options are what the daemon is started with.
type Options struct {
	// Node is the name of the node. It must not be empty.
	Node string
	// Namespace is the daemon's own.
	Namespace string
	// Address serves /healthz, /readyz and /metrics over http; "0" serves none.
	Address string
	// Sockets are tried in order for container runtimes. The order decides only while the node runs no container.
	Sockets []string
	// MaxPulls is how many images are pulled at the same time, at least 1.
	MaxPulls int
	// CredentialProviders is a file with a CredentialProviderConfig of the kubelet, and CredentialFolder the folder of the programs that it names. The
	// file is read for each pull that needs it. Empty: no program is asked for credentials.
	CredentialProviders, CredentialFolder string
	// NoProbes leaves the probes of PodProbeMarkers alone.
	NoProbes bool
	// NoReports reports nothing about containers, and restarts none for labels and annotations that they read.
	NoReports bool
	// LogLevel is how much is logged.
	LogLevel string
}

// errNoNode says that the daemon does not know where it is.
var errNoNode = errors.New("the name of the node is empty: set NODE_NAME from the field spec.nodeName of the pod, or --node")

// Run runs the daemon until ctx ends.
func Run(ctx context.Context, o Options) error {
	levels, err := logging.NewLevels(o.LogLevel, nil)
	if err != nil {
		return err
	}
	log, err := logging.New(os.Stderr, levels, "json")
	if err != nil {
		return err
	}
	ctrl.SetLogger(log)
	klog.SetLogger(log.WithName("client-go"))
	server, err := connection.Config(Name + "/" + version.String())
	if err != nil {
		return err
	}
	runtime, err := cri.New(o.Sockets, ctrlmetrics.Registry)
	if err != nil {
		return err
	}
	defer runtime.Close()
	mgr, err := New(server, o, runtime)
	if err != nil {
		return err
	}
	log.Info("Starting", "version", version.String(), "node", o.Node, "sockets", o.Sockets)
	return mgr.Start(ctx)
}

// New returns the manager of a daemon, which does nothing yet.
func New(server *rest.Config, o Options, runtime cri.Runtime) (ctrl.Manager, error) {
	switch {
	case o.Node == "":
		return nil, errNoNode
	case o.MaxPulls < 1:
		return nil, fmt.Errorf("%d pulls at the same time: must be at least 1", o.MaxPulls)
	}
	types, err := scheme.New()
	if err != nil {
		return nil, err
	}
	ready := &readiness{}
	mgr, err := ctrl.NewManager(server, ctrl.Options{
		Scheme:         types,
		Cache:          cacheOf(o.Node),
		MapperProvider: mapper.New,
		// Secrets are asked for one by one, when an image is pulled.
		Client:                  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Metrics:                 metricsserver.Options{BindAddress: o.Address, ExtraHandlers: ready.handlers()},
		HealthProbeBindAddress:  "0",
		GracefulShutdownTimeout: ptr.To(graceful),
		Controller:              ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("building the daemon: %w", err)
	}
	metrics, err := host.NewMetrics(ctrlmetrics.Registry)
	if err != nil {
		return nil, err
	}
	given := Host{
		Node: o.Node, Namespace: o.Namespace, Manager: mgr, Runtime: runtime, Events: mgr.GetEventRecorder(Name),
		Clock: clock.RealClock{}, MaxPulls: o.MaxPulls, Metrics: metrics,
		CredentialProviders: o.CredentialProviders, CredentialFolder: o.CredentialFolder,
	}
	ready.runtime = func(ctx context.Context) cri.Runtime { return given.NodeRuntime(ctx, mgr.GetClient()) }
	for _, add := range workers(o) {
		if err := add(given); err != nil {
			return nil, fmt.Errorf("adding a worker: %w", err)
		}
	}
	if err := mgr.Add(ctrlmanager.RunnableFunc(ready.started)); err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	return mgr, nil
}

// cacheOf limits the cache to objects of the node. A kind that is not listed here must not be read through it.
func cacheOf(node string) cache.Options {
	options := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {Field: fields.OneTermEqualSelector("spec.nodeName", node)},
		},
	}
	for object, of := range byNode(node) {
		options.ByObject[object] = of
	}
	return options
}

// readiness says whether the daemon can work.
type readiness struct {
	// runtime is the one that runs the pods of the node. It is asked for when the cache holds these.
	runtime func(ctx context.Context) cri.Runtime
	synced  atomic.Bool
}

// started is called when the cache holds the node's objects.
func (r *readiness) started(ctx context.Context) error {
	r.synced.Store(true)
	for {
		// Lists were decoded whole, and work may have been done since: what neither needs any more is given back.
		debug.FreeOSMemory()
		select {
		case <-time.After(releaseMemoryEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

func (r *readiness) handlers() map[string]http.Handler {
	return map[string]http.Handler{
		"/healthz": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }),
		"/readyz":  http.HandlerFunc(r.answer),
	}
}

func (r *readiness) answer(w http.ResponseWriter, request *http.Request) {
	if !r.synced.Load() {
		http.Error(w, "the objects of the node are being read", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithTimeout(request.Context(), answering)
	defer cancel()
	if _, err := r.runtime(ctx).Status(ctx); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}
