// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/controllers/operatorconfig"
	"github.com/kruise-operator/kruise-operator/internal/confirmation"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/apiservers"
	kubecache "github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/catchup"
	"github.com/kruise-operator/kruise-operator/internal/kube/migration"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/manifests"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/takeover"
	"github.com/kruise-operator/kruise-operator/internal/webhook"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
	"github.com/kruise-operator/kruise-operator/internal/webhookserving"
)

func (p *process) build(ctx context.Context, c *config.Config, operator operatorconfig.Dependencies) (ctrl.Manager, error) {
	if err := p.openWebhooks(ctx, c); err != nil {
		return nil, err
	}
	denied := kubecache.NewDenied(clock.RealClock{})
	mgr, err := p.newManager(c, operator.Watch, denied)
	if err != nil {
		return nil, err
	}
	if p.serving != nil {
		if err := p.serving.SetupWithManager(mgr); err != nil {
			return nil, fmt.Errorf("keeping the API server able to call the operator: %w", err)
		}
	}
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server past the cache: %w", err)
	}
	guard, err := p.addTakeover(mgr, c, direct, &operator)
	if err != nil {
		return nil, err
	}
	if err := p.completeOperator(&operator, c, direct, mgr); err != nil {
		return nil, err
	}
	if err := p.addControllers(ctx, mgr, c, direct, guard, denied, operator); err != nil {
		return nil, err
	}
	filling := newFilling(denied)
	if err := mgr.Add(filling); err != nil {
		return nil, err
	}
	go filling.report(ctx, p.direct)
	return mgr, p.addProbes(mgr, c, filling)
}

// addTakeover adds the guard against two managers and the migration of stored objects. The status tells of both.
func (p *process) addTakeover(mgr ctrl.Manager, c *config.Config, direct client.Client, operator *operatorconfig.Dependencies) (*takeover.Guard, error) {
	changes := make(chan struct{}, 1)
	changed := func() {
		select {
		case changes <- struct{}{}:
		default:
		}
	}
	guard := takeover.NewGuard(takeover.Options{
		Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Mapper: mgr.GetRESTMapper(), Changed: changed,
		Served: c.Kinds, AcceptUnserved: c.AcceptUnservedKinds, Metrics: p.metrics, Clock: clock.RealClock{}, Log: p.log.WithName("takeover"),
	})
	moving := migration.New(migration.Options{
		Client: direct, Kinds: c.Table.Where(func(k kinds.Kind) bool { return len(k.Versions) > 1 }),
		Ready: func() bool { return acts(guard) }, Changed: changed,
		Clock: clock.RealClock{}, Log: mgr.GetLogger().WithName("migration"),
	})
	operator.WorkChanged = changes
	operator.Work = func() operatorconfig.Work { return underWay(guard, moving) }
	operator.Acts = func() bool { return acts(guard) }
	for _, runs := range []ctrlmanager.Runnable{guard, moving, leading(p.metrics.IsLeader)} {
		if err := mgr.Add(runs); err != nil {
			return nil, err
		}
	}
	return guard, nil
}

func (p *process) addControllers(
	ctx context.Context, mgr ctrl.Manager, c *config.Config, direct client.Client, guard *takeover.Guard, denied *kubecache.Denied,
	operator operatorconfig.Dependencies,
) error {
	catchUp := catchup.New(mgr.GetAPIReader(), p.log.WithName("catchup"))
	err := mgr.Add(catchUp)
	if err != nil {
		return err
	}
	deps := controllers.Deps{
		Dependencies: workload.Dependencies{
			Metrics: p.metrics, Denied: denied, Clock: clock.RealClock{}, Guard: guard.Reconciler, CatchUp: catchUp,
			Servers: apiservers.New(direct, mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()}),
		},
		Config: c, Log: p.log.WithName("setup"), GuardHooks: guard.Registrar, Operator: operator,
	}
	if p.serving != nil {
		deps.Call = p.serving.Call
	}
	if deps.Hooks, err = controllers.Registrar(mgr, deps); err != nil {
		return err
	}
	if err := controllers.Setup(ctx, mgr, deps); err != nil {
		return err
	}
	return serveWebhooks(mgr, deps, direct, guard)
}

// openWebhooks prepares the process to be called by the API server.
func (p *process) openWebhooks(ctx context.Context, c *config.Config) error {
	if c.WebhookPort == 0 {
		return nil
	}
	var err error
	p.serving, err = webhookserving.Open(ctx, webhookserving.Options{
		Client: p.direct, Endpoint: webhookserving.Endpoint{Namespace: c.Namespace, URL: c.WebhookURL},
		CertDir: c.WebhookCertDir, Kinds: c.Table, Enabled: c.Enabled, Clock: clock.RealClock{},
		Manifests: func() ([]*unstructured.Unstructured, error) { return manifests.Read("webhook") },
	})
	return err
}

// newManager returns an empty manager. Its cache holds the Kruise object only if the API server serves the kind.
func (p *process) newManager(c *config.Config, served bool, denied *kubecache.Denied) (ctrl.Manager, error) {
	server := rest.CopyConfig(p.server)
	server.QPS, server.Burst = -1, 0
	if c.QPS > 0 {
		server.QPS, server.Burst = c.QPS, c.Burst
	}
	types, err := scheme.New()
	if err != nil {
		return nil, err
	}
	kept := controllers.CacheContents(c).Options(c.Table)
	kept.DefaultWatchErrorHandler = denied.Handle
	kept.SyncPeriod = &c.ResyncPeriod
	if served {
		kept = operatorconfig.Cache(kept)
	}
	options := ctrl.Options{
		Scheme:                        types,
		Cache:                         kept,
		NewCache:                      kubecache.New,
		Metrics:                       metricsOptions(c),
		PprofBindAddress:              c.ProfilingAddress,
		HealthProbeBindAddress:        c.ProbeAddress,
		LeaderElection:                c.LeaderElect,
		LeaderElectionID:              confirmation.LeaseName,
		LeaderElectionNamespace:       c.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &c.LeaseDuration,
		RenewDeadline:                 &c.RenewDeadline,
		RetryPeriod:                   &c.RetryPeriod,
		GracefulShutdownTimeout:       ptr.To(graceTimeout),
		Controller:                    ctrlconfig.Controller{EnableWarmup: ptr.To(true)},
	}
	if p.serving != nil {
		options.WebhookServer = ctrlwebhook.NewServer(ctrlwebhook.Options{Port: c.WebhookPort, CertDir: c.WebhookCertDir, TLSOpts: []func(*tls.Config){p.serving.TLS}})
	}
	mgr, err := ctrl.NewManager(server, options)
	if err != nil {
		return nil, fmt.Errorf("building the manager: %w", err)
	}
	return mgr, nil
}

func (p *process) addProbes(mgr ctrl.Manager, c *config.Config, caches *filling) error {
	ready := map[string]healthz.Checker{"rights": caches.Check, "ending": func(*http.Request) error {
		if p.draining.Load() {
			return errors.New("the process is about to end")
		}
		return nil
	}}
	if c.WebhookPort != 0 {
		ready["webhooks"] = mgr.GetWebhookServer().StartedChecker()
	}
	for name, check := range ready {
		if err := mgr.AddReadyzCheck(name, check); err != nil {
			return fmt.Errorf("adding the readiness check %s: %w", name, err)
		}
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the liveness check: %w", err)
	}
	return nil
}

// serveWebhooks answers the API server, if it is to call.
func serveWebhooks(mgr ctrl.Manager, deps controllers.Deps, direct client.Client, guard *takeover.Guard) error {
	c := deps.Config
	if c.WebhookPort == 0 {
		return nil
	}
	known, err := hooks.Known(mgr, c.Namespace, deps.Denied.Handle)
	if err != nil {
		return err
	}
	webhook.Setup(mgr, controllers.All(), admit.Deps{
		Client: direct, Namespace: c.Namespace, Enabled: c.Enabled, Gates: c.Features, ClientCA: c.ClientCA,
		Recorder: mgr.GetEventRecorder("admission"), Metrics: deps.Metrics,
		Hooks: deps.Hooks, Servers: deps.Servers, KnownRevision: known, Acts: func() bool { return guard.State().Reason != takeover.OpenKruiseRuns },
	})
	return nil
}

// completeOperator adds the manager's part to the Kruise object's reconciler.
func (p *process) completeOperator(operator *operatorconfig.Dependencies, c *config.Config, direct client.Client, mgr ctrl.Manager) (err error) {
	operator.Recorder = mgr.GetEventRecorder(operatorconfig.Name)
	if p.serving != nil {
		operator.KeepWebhooks = p.serving.Lead
	}
	if os.Getenv("OPERATOR_CONDITION_NAME") != "" { // the Operator Lifecycle Manager (v0) sets it in every container
		if operator.OLM, err = operatorconfig.Upgradeable(mgr.GetConfig()); err != nil {
			return err
		}
	}
	if c.LeaderElect {
		recorder := &confirmation.Recorder{Client: direct, Mapper: mgr.GetRESTMapper(), Lease: leaseOf(c), Kinds: c.Table, Waiting: c.Unconfirmed, Changed: operator.End}
		if err := mgr.Add(recorder); err != nil {
			return err
		}
	}
	if operator.Watch {
		operator.Versions = append(operator.Versions, p.kubernetes(mgr)...)
	}
	if c.Deployment == "" {
		return nil
	}
	operator.Pods = c.Namespace
	own := client.ObjectKey{Namespace: c.Namespace, Name: c.Deployment}
	operator.Operands = &operatorconfig.Operands{Client: direct, Deployment: own, MetricsAddress: c.MetricsAddress, MetricsSecure: c.MetricsSecure}
	operator.NodeDaemon = &operatorconfig.NodeDaemon{Client: direct, Deployment: own, Clock: clock.RealClock{}, Foreign: takeover.NodeDaemon()}
	return nil
}

// kubernetes returns the version of the API server, for the status; empty when the server does not tell it.
func (p *process) kubernetes(mgr ctrl.Manager) []operatorv1alpha1.ComponentVersion {
	asking, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err == nil {
		info, asked := asking.ServerVersion()
		if asked == nil {
			return []operatorv1alpha1.ComponentVersion{{Name: "kubernetes", Version: info.GitVersion}}
		}
		err = asked
	}
	p.log.Info("The API server's version is not known", "err", err.Error())
	return nil
}

// acts: nobody else manages the workloads.
func acts(guard *takeover.Guard) bool { return guard.State().Reason == takeover.Acting }

// underWay describes work to finish before an upgrade: a takeover, or else a migration.
func underWay(guard *takeover.Guard, moving *migration.Migration) operatorconfig.Work {
	if state := guard.State(); state.Reason != takeover.Acting && state.Reason != takeover.LeaseUnknown {
		return operatorconfig.Work{Reason: operatorv1alpha1.ReasonTakingOver, Message: state.Message}
	}
	if message := moving.Working(); message != "" {
		return operatorconfig.Work{Reason: operatorv1alpha1.ReasonMigrating, Message: message}
	}
	return operatorconfig.Work{}
}
