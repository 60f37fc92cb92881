// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

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
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
	"github.com/kruise-operator/kruise-operator/internal/manifests"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/mapper"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/takeover"
	"github.com/kruise-operator/kruise-operator/internal/webhook"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
	"github.com/kruise-operator/kruise-operator/internal/webhookserving"
)

// build returns a manager with everything in it. ctx ends with the process, running ends with the manager.
func (p *process) build(ctx, running context.Context, c *config.Config, operator operatorconfig.Dependencies) (ctrl.Manager, error) {
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
	if err := addMetricsServer(mgr, c); err != nil {
		return nil, err
	}
	if err := addLeaderMetric(mgr, p.metrics.IsLeader); err != nil {
		return nil, err
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
	catchUp, err := p.addCatchUp(mgr)
	if err != nil {
		return nil, err
	}
	accepted := templatecheck.NewAccepted(clock.RealClock{})
	deps := controllers.Deps{
		Config: c, Metrics: p.metrics, Accepted: accepted, Denied: denied, Clock: clock.RealClock{}, Log: p.log.WithName("setup"), Guard: guard.Reconciler,
		GuardHooks: guard.Registrar, CatchUp: catchUp, Operator: operator,
	}
	if p.serving != nil {
		deps.Call = p.serving.Call
	}
	deps.Servers = apiservers.New(direct, mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if deps.Hooks, err = controllers.Registrar(mgr, deps); err != nil {
		return nil, err
	}
	if err := controllers.Setup(ctx, mgr, deps); err != nil {
		return nil, err
	}
	if err := serveWebhooks(mgr, deps, direct, guard); err != nil {
		return nil, err
	}
	filling := newFilling(denied)
	if err := mgr.Add(filling); err != nil {
		return nil, fmt.Errorf("adding the report on the caches: %w", err)
	}
	go filling.report(running, p.direct)
	return mgr, addProbes(mgr, c, filling)
}

// openWebhooks prepares the process to be called by the API server. It does so once in a process, because the Kruise object cannot override the flags
// that it depends on.
func (p *process) openWebhooks(ctx context.Context, c *config.Config) error {
	if c.WebhookPort == 0 || p.serving != nil {
		return nil
	}
	configurations, err := manifests.Render("webhook")
	if err != nil {
		return err
	}
	p.serving, err = webhookserving.Open(ctx, webhookserving.Options{
		Client: p.direct, Endpoint: webhookserving.Endpoint{Namespace: c.Namespace, URL: c.WebhookURL},
		Port: c.WebhookPort, CertDir: c.WebhookCertDir, Kinds: c.Table, Configurations: configurations, Clock: clock.RealClock{},
	})
	if err != nil {
		return err
	}
	p.webhooks = p.serving.NewServer(ctx)
	return nil
}

// newManager returns a manager with nothing in it. Its cache can hold the Kruise object only where the API server serves that kind.
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
		MapperProvider:                mapper.New,
		Metrics:                       metricsserver.Options{BindAddress: "0"}, // addMetricsServer
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
		// Names are unique within one manager. The next manager of this process uses the same names again.
		Controller: ctrlconfig.Controller{EnableWarmup: ptr.To(true), SkipNameValidation: ptr.To(true)},
	}
	if p.webhooks != nil {
		options.WebhookServer = p.webhooks.Handlers()
	}
	mgr, err := ctrl.NewManager(server, options)
	if err != nil {
		return nil, fmt.Errorf("building the manager: %w", err)
	}
	return mgr, nil
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
	for _, runs := range []manager.Runnable{guard, moving} {
		if err := mgr.Add(runs); err != nil {
			return nil, fmt.Errorf("adding what waits for another manager: %w", err)
		}
	}
	operator.WorkChanged = changes
	operator.Work = func() operatorconfig.Work { return underWay(guard, moving) }
	operator.Acts = func() bool { return acts(guard) }
	return guard, nil
}

// addCatchUp adds the gate that lets passes wait for the cache after an election or, without leader election, after the start. Where the API server does
// not stream lists, it answers the first list of an informer from its own cache, which may lag.
func (p *process) addCatchUp(mgr ctrl.Manager) (*catchup.Gate, error) {
	gate := catchup.New(mgr.GetAPIReader(), clock.RealClock{}, p.log.WithName("catchup"))
	if err := mgr.Add(gate); err != nil {
		return nil, fmt.Errorf("adding the gate that waits for the cache: %w", err)
	}
	return gate, nil
}

func addProbes(mgr ctrl.Manager, c *config.Config, caches *filling) error {
	ready := healthz.Ping
	if c.WebhookPort != 0 {
		ready = mgr.GetWebhookServer().StartedChecker()
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the liveness check: %w", err)
	}
	if err := mgr.AddReadyzCheck("webhooks", ready); err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	if err := mgr.AddReadyzCheck("rights", caches.Check); err != nil {
		return fmt.Errorf("adding the readiness check of rights: %w", err)
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
	return webhook.Setup(mgr, controllers.All(), admit.Deps{
		Client: direct, Namespace: c.Namespace, Accepted: deps.Accepted, Enabled: c.Enabled, Gates: c.Features, ClientCA: c.ClientCA,
		Hooks: deps.Hooks, Servers: deps.Servers, KnownRevision: known, Acts: func() bool { return guard.State().Reason != takeover.OpenKruiseRuns },
	})
}

// completeOperator fills in what the reconciler of the Kruise object needs from the manager.
func (p *process) completeOperator(operator *operatorconfig.Dependencies, c *config.Config, direct client.Client, mgr ctrl.Manager) error {
	operator.UnderOLM = underOLM()
	operator.Recorder = mgr.GetEventRecorder(operatorconfig.Name)
	if p.serving != nil && !operator.UnderOLM { // the Operator Lifecycle Manager makes webhook configurations of its own
		operator.KeepWebhooks = p.serving.KeepEntries
	}
	var err error
	if operator.UnderOLM {
		if operator.OLM, err = operatorconfig.Upgradeable(mgr.GetConfig()); err != nil {
			return err
		}
	}
	if c.LeaderElect {
		recorder := &confirmation.Recorder{Client: direct, Mapper: mgr.GetRESTMapper(), Lease: leaseOf(c), Kinds: c.Table, Waiting: c.Unconfirmed, Changed: operator.Restart}
		if err := mgr.Add(recorder); err != nil {
			return fmt.Errorf("adding the record of the kinds that are served: %w", err)
		}
	}
	if operator.Watch {
		operator.Versions = append(operator.Versions, p.kubernetes(mgr)...)
	}
	if c.Deployment == "" {
		return nil
	}
	operator.Operands = &operatorconfig.Operands{
		Client: direct, Deployment: client.ObjectKey{Namespace: c.Namespace, Name: c.Deployment}, MetricsAddress: c.MetricsAddress,
	}
	operator.NodeDaemon = &operatorconfig.NodeDaemon{
		Client: direct, Deployment: client.ObjectKey{Namespace: c.Namespace, Name: c.Deployment}, Clock: clock.RealClock{},
		Foreign: takeover.NodeDaemon(),
	}
	operator.Exists = func(ctx context.Context, replica string) (bool, error) {
		pod := &metav1.PartialObjectMetadata{}
		pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		err := direct.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: replica}, pod)
		return err == nil, client.IgnoreNotFound(err)
	}
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

// underOLM says whether the Operator Lifecycle Manager (v0) installed the operator: it sets this variable in every container.
func underOLM() bool { return os.Getenv("OPERATOR_CONDITION_NAME") != "" }

// acts says that nobody else manages the workloads.
func acts(guard *takeover.Guard) bool { return guard.State().Reason == takeover.Acting }

// underWay describes work to finish before an upgrade: a takeover, or else a migration.
func underWay(guard *takeover.Guard, moving *migration.Migration) operatorconfig.Work {
	if work := takingOver(guard); work.Reason != "" {
		return work
	}
	if message := moving.Working(); message != "" {
		return operatorconfig.Work{Reason: operatorv1alpha1.ReasonMigrating, Message: message}
	}
	return operatorconfig.Work{}
}

// takingOver describes a takeover from OpenKruise, if there is one.
func takingOver(guard *takeover.Guard) operatorconfig.Work {
	state := guard.State()
	if state.Reason == takeover.Acting || state.Reason == takeover.LeaseUnknown {
		return operatorconfig.Work{}
	}
	return operatorconfig.Work{Reason: operatorv1alpha1.ReasonTakingOver, Message: state.Message}
}

// off are the disabled kinds.
func off(c *config.Config) []string { return slices.DeleteFunc(c.KnownKinds(), c.Enabled) }
