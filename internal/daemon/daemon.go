// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package daemon runs on every node that needs it: it pulls images ahead, restarts
// containers, runs probes, and reports on containers.
//
// Its promises:
//
//   - It watches only its own node's objects, so its cost does not grow with the cluster.
//   - It needs no state in memory: after any restart, of the runtime or kubelet too, it
//     continues from the objects and the runtime's reports.
//   - It answers /healthz while it runs, even if the runtime fails: a restart would not
//     help. /readyz needs its objects read and an answering runtime.
//
// A feature is a package below this one, and a line in workers.go. Its rights are in
// config/rbac/daemon/roles.yaml; docs/operations/node-daemon.md tells what a stolen token
// allows.
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
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/platform/version"
)

// Name is the name of the daemon, of its account, and the reportingController of its events.
const Name = "kruise-daemon"

const (
	// graceful is the time work has to end. The runtime's tasks go on without the daemon.
	graceful = 5 * time.Second
	// answering is how long the runtime may take to answer for the daemon to be ready.
	answering = 2 * time.Second
	// releaseMemoryEvery is how often unused memory is given back. Each time costs some
	// milliseconds of collection and page faults.
	releaseMemoryEvery = time.Minute
)

// Options configure the daemon.
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
	// CredentialProviders is a CredentialProviderConfig of the kubelet, read for each pull
	// in need, and CredentialFolder the folder of its programs. Empty: no program is asked
	// for credentials.
	CredentialProviders, CredentialFolder string
	// NoProbes leaves the probes of PodProbeMarkers alone.
	NoProbes bool
	// NoReports disables reports on containers, and restarts for the labels and annotations
	// they read.
	NoReports bool
	// LogLevel is how much is logged.
	LogLevel string
}

// errNoNode: the daemon does not know its node.
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
	runtime := cri.New(o.Sockets, ctrlmetrics.Registry)
	defer runtime.Close()
	mgr, err := New(server, o, runtime, host.NewMetrics(ctrlmetrics.Registry))
	if err != nil {
		return err
	}
	log.Info("Starting", "version", version.String(), "node", o.Node, "sockets", o.Sockets)
	return mgr.Start(ctx)
}

// New returns the manager of a daemon, not started yet.
func New(server *rest.Config, o Options, runtime cri.Runtime, metrics *host.Metrics) (ctrl.Manager, error) {
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
		Scheme: types,
		Cache:  cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: byNode(o.Node)},
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
	given := host.Host{
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

// readiness tells if the daemon can work.
type readiness struct {
	// runtime returns the runtime of the node's pods; the cache holds these by then.
	runtime func(ctx context.Context) cri.Runtime
	synced  atomic.Bool
}

// started is called when the cache holds the node's objects.
func (r *readiness) started(ctx context.Context) error {
	r.synced.Store(true)
	for {
		// Lists were decoded whole, and work may have been done: give the memory back.
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
