// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// The manager of kruise-operator: it runs the controllers and serves admission.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	manifests "github.com/kruise-operator/kruise-operator/config"
	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/controllers/operatorconfig"
	"github.com/kruise-operator/kruise-operator/internal/kube/index"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
	"github.com/kruise-operator/kruise-operator/internal/platform/certs"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/platform/handover"
	"github.com/kruise-operator/kruise-operator/internal/platform/heap"
	"github.com/kruise-operator/kruise-operator/internal/platform/incluster"
	"github.com/kruise-operator/kruise-operator/internal/platform/install"
	"github.com/kruise-operator/kruise-operator/internal/platform/local"
	"github.com/kruise-operator/kruise-operator/internal/platform/logging"
	"github.com/kruise-operator/kruise-operator/internal/platform/mapper"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/platform/takeover"
	"github.com/kruise-operator/kruise-operator/internal/platform/version"
	webhooks "github.com/kruise-operator/kruise-operator/internal/webhook"
	"github.com/kruise-operator/kruise-operator/internal/webhook/cloneset"
	"github.com/kruise-operator/kruise-operator/internal/webhook/reach"
	"github.com/kruise-operator/kruise-operator/internal/webhook/statefulset"
)

// lease is the name of the lease that the leader holds.
const lease = "kruise-operator-manager"

func main() {
	ctx := ctrl.SetupSignalHandler()
	go heap.Tune(ctx)
	// Exit as soon as the manager has stopped: the lease is given back by then, and another replica may lead already.
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "kruise-operator",
		Short:         "Looks after the workloads of apps.kruise.io",
		Version:       version.String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	c := &config.Config{}
	run := &cobra.Command{
		Use:   "run",
		Short: "Run the manager until it is told to stop",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), c, config.Given(cmd.Flags())) },
	}
	c.AddFlags(run.Flags())

	url := ""
	installing := &cobra.Command{
		Use:   "install",
		Short: "Install kinds, rights and webhooks into the cluster that KUBECONFIG names, for running outside of it",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return installation(cmd.Context(), url, install.Install) },
	}
	installing.Flags().StringVar(&url, "webhook-url", "", "Where the API server reaches the operator, such as https://192.0.2.7:9443.")
	uninstalling := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove what install installed; refuses while objects of our kinds exist",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return installation(cmd.Context(), url, install.Uninstall) },
	}
	preflight := takeover.Command(func() (client.Client, error) {
		_, direct, err := connect()
		return direct, err
	})
	root.AddCommand(run, installing, uninstalling, preflight)
	return root
}

// installation installs or uninstalls.
func installation(ctx context.Context, url string, do func(context.Context, client.Client, install.Options) error) error {
	_, direct, err := connect()
	if err != nil {
		return err
	}
	return do(ctx, direct, install.Options{WebhookURL: url, Now: time.Now(), Report: func(line string) { fmt.Println(line) }})
}

// connect returns how the cluster is reached, and a client that asks the API server directly.
func connect() (*rest.Config, client.Client, error) {
	server, err := ctrl.GetConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("finding the API server: %w", err)
	}
	server.UserAgent = version.UserAgent()
	types, err := scheme.New()
	if err != nil {
		return nil, nil, err
	}
	direct, err := client.New(server, client.Options{Scheme: types})
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return server, direct, nil
}

// errRestart is why a run ends that begins anew.
var errRestart = errors.New("the configuration has changed")

// run builds the manager and runs it until ctx is done. When the configuration changes, the process begins anew.
func run(ctx context.Context, flags *config.Config, given sets.Set[string]) error {
	if _, err := config.Merge(*flags, given, nil); err != nil {
		return err
	}
	levels, err := logging.NewLevels(flags.LogLevel, nil)
	if err != nil {
		return err
	}
	log, err := logging.New(os.Stderr, levels, flags.LogFormat)
	if err != nil {
		return err
	}
	ctrl.SetLogger(log)
	klog.SetLogger(log.WithName("client-go"))
	server, direct, err := connect()
	if err != nil {
		return err
	}
	operator, c, err := configure(ctx, direct, *flags, given, log)
	if err != nil {
		return err
	}
	operator.Levels = levels
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	operator.Restart = func() { cancel(errRestart) }
	sockets := &handover.Sockets{}
	if err := serve(running, c, operator, server, direct, sockets, log); err != nil {
		return err
	}
	// A process that was also told to end must end: the next program would not know of it.
	if ctx.Err() == nil && errors.Is(context.Cause(running), errRestart) {
		log.Info("Beginning anew")
		return sockets.Replace()
	}
	if !operator.Watch {
		return nil
	}
	leaving, end := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer end()
	if err := operatorconfig.Leave(leaving, direct, operator.Self); err != nil {
		log.Info("The status still names this replica", "err", err.Error())
	}
	return nil
}

// configure puts the Kruise object over the flags. It returns what the reconciler of the object needs from here, and the configuration.
func configure(ctx context.Context, direct client.Client, flags config.Config, given sets.Set[string], log logr.Logger) (operatorconfig.Dependencies, *config.Config, error) {
	object, served, err := config.Load(ctx, direct)
	if err != nil {
		return operatorconfig.Dependencies{}, nil, err
	}
	merged, err := config.Merge(flags, given, config.SpecOf(object))
	if err != nil {
		return operatorconfig.Dependencies{}, nil, err
	}
	c := &merged.Config
	d := operatorconfig.Dependencies{
		Watch: served, Flags: flags, Given: given, Running: c.Hash(), Self: self(c), Alone: !c.LeaderElect,
		Versions: []operatorv1alpha1.ComponentVersion{{Name: "operator", Version: version.String()}},
	}
	if fault := listenable(c.MetricsAddress); fault != nil && merged.Sources["metrics.bindAddress"] == config.FromObject {
		d.Faults = append(d.Faults, "spec.metrics.bindAddress: "+fault.Error())
		c.MetricsAddress = flags.MetricsAddress
	}
	log.Info("Starting", "version", version.String(), "kinds", c.Kinds, "featureGates", c.Features.String(), "configuration", merged.Summary())
	for _, note := range merged.Notes {
		log.Info("Mind the feature gates", "note", note)
	}
	for _, fault := range append(merged.Faults, d.Faults...) {
		log.Info("Left out of the configuration", "fault", fault)
	}
	return d, c, nil
}

// self is the name of this replica: that of its pod, or else of its machine with the port that tells processes there apart.
func self(c *config.Config) string {
	if pod := os.Getenv("POD_NAME"); pod != "" {
		return pod
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	if c.WebhookURL != "" {
		host += "-" + strconv.Itoa(c.WebhookPort)
	}
	return host
}

// listenable says why nobody can listen at an address, so that a wrong one in the object does not keep the operator from starting.
func listenable(address string) error {
	if address == "0" {
		return nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	return listener.Close()
}

// serve builds the manager and runs it until ctx is done.
func serve(ctx context.Context, c *config.Config, operator operatorconfig.Dependencies, server *rest.Config, direct client.Client, sockets *handover.Sockets, log logr.Logger) error {
	webhooks, keep, err := webhookServer(ctx, c, direct, sockets)
	if err != nil {
		return err
	}
	if c.ServiceAccount != "" {
		account, err := local.ParseServiceAccount(c.ServiceAccount)
		if err != nil {
			return fmt.Errorf("--service-account: %w", err)
		}
		if server, err = local.As(ctx, server, account); err != nil {
			return err
		}
		server.UserAgent = version.UserAgent()
	}
	mgr, err := manager(c, operator.Watch, server, webhooks)
	if err != nil {
		return err
	}
	if err := keep(mgr); err != nil {
		return fmt.Errorf("keeping the certificate: %w", err)
	}
	if err := setup(ctx, mgr, c, operator, log); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// webhookServer returns the server of the webhooks and what adds to a manager the keeping of its certificate.
//
// Outside of the cluster it first proves that the API server can call this process: otherwise every write of our kinds would fail
// until somebody finds out why.
func webhookServer(ctx context.Context, c *config.Config, direct client.Client, sockets *handover.Sockets) (webhook.Server, func(ctrl.Manager) error, error) {
	options := webhook.Options{Port: c.WebhookPort, CertDir: c.WebhookCertDir}
	if c.WebhookPort == 0 {
		return webhook.NewServer(options), func(ctrl.Manager) error { return nil }, nil
	}
	if c.WebhookURL == "" {
		calls, err := incluster.Open(ctx, incluster.Options{Client: direct, Namespace: c.Namespace, CertDir: c.WebhookCertDir, Clock: clock.RealClock{}})
		if err != nil {
			return nil, nil, err
		}
		return handover.NewServer(calls.Serve(options), sockets), calls.SetupWithManager, nil
	}
	hosts, err := install.Options{WebhookURL: c.WebhookURL}.Hosts()
	if err != nil {
		return nil, nil, fmt.Errorf("--webhook-url: %w", err)
	}
	certificate := &certs.Source{
		Client: direct, Secret: install.CertificateSecret(), Hosts: hosts, Clock: clock.RealClock{},
		Trust: func(ctx context.Context, ca []byte) error {
			return install.Trust(ctx, direct, install.Options{WebhookURL: c.WebhookURL, Now: time.Now()}, ca)
		},
	}
	if _, err := certificate.Load(ctx); err != nil {
		if apierrors.IsNotFound(err) { // the namespace
			return nil, nil, fmt.Errorf("the operator is not installed in this cluster; run `install` first: %w", err)
		}
		return nil, nil, err
	}
	options.TLSOpts = []func(*tls.Config){certificate.TLS}
	served := handover.NewServer(options, sockets)
	keep := func(mgr ctrl.Manager) error { return mgr.Add(certificate) }
	if handover.Again() || !slices.ContainsFunc(reach.Kinds(), c.Enabled) {
		return served, keep, nil // It was checked before the restart, or there is nothing to ask about.
	}
	// The check asks about a kind that is on. Entries of one that was off until now have to come back first.
	if own, err := ownWebhooks(c, direct); err != nil {
		return nil, nil, err
	} else if own != nil {
		if err := own.Apply(ctx, sets.New(disabled(c)...)); err != nil {
			return nil, nil, err
		}
	}
	if err := webhooks.Reach(ctx, webhook.NewServer(options), admission(c, direct), c.WebhookURL); err != nil {
		return nil, nil, err
	}
	return served, keep, nil
}

func admission(c *config.Config, direct client.Client) webhooks.Deps {
	return webhooks.Deps{
		Client:   direct,
		Enabled:  c.Enabled,
		Protects: c.Features.Enabled(features.ResourcesDeletionProtection),
		CloneSet: cloneset.Options{
			PreDownloadImage: c.Features.Enabled(features.PreDownloadImageForInPlaceUpdate),
		},
		StatefulSet: statefulset.Options{
			StartOrdinal:  c.Features.Enabled(features.StatefulSetStartOrdinal),
			AutoDeletePVC: c.Features.Enabled(features.StatefulSetAutoDeletePVC),
			AutoResizePVC: c.Features.Enabled(features.StatefulSetAutoResizePVC),
		},
	}
}

// setup adds the controllers, the webhooks and the probes to the manager.
func setup(ctx context.Context, mgr ctrl.Manager, c *config.Config, operator operatorconfig.Dependencies, log logr.Logger) error {
	own, err := metrics.New(ctrlmetrics.Registry)
	if err != nil {
		return err
	}
	guard := takeover.NewGuard(takeover.Options{
		Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Mapper: mgr.GetRESTMapper(),
		Served: c.Kinds, AcceptUnserved: c.AcceptUnservedKinds, Metrics: own, Clock: clock.RealClock{}, Log: log.WithName("takeover"),
	})
	if err := mgr.Add(guard); err != nil {
		return fmt.Errorf("adding the guard against two managers: %w", err)
	}
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return fmt.Errorf("connecting to the API server past the cache: %w", err)
	}
	if operator.Webhooks, err = ownWebhooks(c, direct); err != nil {
		return err
	}
	if operator.Protection, err = protection(c, direct); err != nil {
		return err
	}
	if err := inCluster(&operator, c, direct, mgr); err != nil {
		return err
	}
	operator.Work, operator.WorkChanged = func() operatorconfig.Work { return takingOver(guard) }, guard.Changes()
	if operator.Watch {
		operator.Versions = append(operator.Versions, kubernetes(mgr, log)...)
	}
	accepted := templatecheck.NewAccepted(clock.RealClock{})
	deps := controllers.Deps{
		Config: c, Metrics: own, Accepted: accepted, Clock: clock.RealClock{}, Log: log.WithName("setup"), Guard: guard, Operator: operator,
	}
	if err := controllers.Setup(ctx, mgr, deps); err != nil {
		return err
	}
	ready := healthz.Ping
	if c.WebhookPort != 0 {
		served := admission(c, direct)
		served.Accepted = accepted
		if err := webhooks.Setup(mgr, served); err != nil {
			return err
		}
		ready = mgr.GetWebhookServer().StartedChecker()
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the liveness check: %w", err)
	}
	if err := mgr.AddReadyzCheck("webhooks", ready); err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	return nil
}

// inCluster adds what there is inside of a cluster: the operator's own Deployment, pods of replicas, the Operator Lifecycle Manager.
func inCluster(operator *operatorconfig.Dependencies, c *config.Config, direct client.Client, mgr ctrl.Manager) (err error) {
	if operator.UnderOLM = underOLM(); operator.UnderOLM {
		if operator.OLM, err = operatorconfig.Upgradeable(mgr.GetConfig()); err != nil {
			return err
		}
	}
	if c.Deployment == "" {
		return nil
	}
	operator.Operands = &operatorconfig.Operands{
		Client: direct, Deployment: client.ObjectKey{Namespace: c.Namespace, Name: c.Deployment}, MetricsAddress: c.MetricsAddress,
	}
	operator.Exists = func(ctx context.Context, replica string) (bool, error) {
		pod := &metav1.PartialObjectMetadata{}
		pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		err := direct.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: replica}, pod)
		return err == nil, client.IgnoreNotFound(err)
	}
	return nil
}

// kubernetes is the version of the API server, for the status; nothing when it does not say.
func kubernetes(mgr ctrl.Manager, log logr.Logger) []operatorv1alpha1.ComponentVersion {
	asking, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err == nil {
		info, asked := asking.ServerVersion()
		if asked == nil {
			return []operatorv1alpha1.ComponentVersion{{Name: "kubernetes", Version: info.GitVersion}}
		}
		err = asked
	}
	log.Info("The API server's version is not known", "err", err.Error())
	return nil
}

// underOLM says whether the Operator Lifecycle Manager (v0) installed the operator: it sets this variable in every container.
func underOLM() bool { return os.Getenv("OPERATOR_CONDITION_NAME") != "" }

// takingOver is the takeover from OpenKruise that is under way, if one is. At a start, before anything is known of OpenKruise, none is.
func takingOver(guard *takeover.Guard) operatorconfig.Work {
	state := guard.State()
	if state.Reason == takeover.Acting || state.Reason == takeover.LeaseUnknown {
		return operatorconfig.Work{}
	}
	return operatorconfig.Work{Reason: operatorv1alpha1.ReasonTakingOver, Message: state.Message}
}

// disabled are the kinds that are not looked after.
func disabled(c *config.Config) []string {
	return slices.DeleteFunc(config.KnownKinds(), c.Enabled)
}

// ownWebhooks is what keeps the webhook configurations to the enabled kinds; nil where the Operator Lifecycle Manager owns these, or
// where the operator serves none.
func ownWebhooks(c *config.Config, direct client.Client) (*operatorconfig.Webhooks, error) {
	if underOLM() || c.WebhookPort == 0 {
		return nil, nil
	}
	entries, err := manifests.Files.ReadFile("webhook/manifests.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the webhook manifests: %w", err)
	}
	return &operatorconfig.Webhooks{Client: direct, Manifests: entries}, nil
}

// protection is what keeps the API server from deleting protected objects, while the gate is on.
func protection(c *config.Config, direct client.Client) (*operatorconfig.Protection, error) {
	policy, err := manifests.Files.ReadFile("protection/manifests.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the manifests of deletion protection: %w", err)
	}
	return &operatorconfig.Protection{Client: direct, Manifests: policy, On: c.Features.Enabled(features.ResourcesDeletionProtection)}, nil
}

// manager builds the manager. Its cache can be told of the Kruise object only where that is served.
func manager(c *config.Config, served bool, server *rest.Config, webhooks webhook.Server) (ctrl.Manager, error) {
	server.QPS, server.Burst = -1, 0
	if c.QPS > 0 {
		server.QPS, server.Burst = c.QPS, c.Burst
	}
	types, err := scheme.New()
	if err != nil {
		return nil, err
	}
	kept := index.Cache(controllers.Kinds(c))
	if served {
		kept = operatorconfig.Cache(kept)
	}
	mgr, err := ctrl.NewManager(server, ctrl.Options{
		Scheme:                        types,
		Cache:                         kept,
		MapperProvider:                mapper.New,
		Metrics:                       metricsserver.Options{BindAddress: c.MetricsAddress},
		PprofBindAddress:              c.ProfilingAddress,
		HealthProbeBindAddress:        c.ProbeAddress,
		WebhookServer:                 webhooks,
		LeaderElection:                c.LeaderElect,
		LeaderElectionID:              lease,
		LeaderElectionNamespace:       c.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &c.LeaseDuration,
		RenewDeadline:                 &c.RenewDeadline,
		RetryPeriod:                   &c.RetryPeriod,
		Controller:                    ctrlconfig.Controller{EnableWarmup: ptr.To(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("building the manager: %w", err)
	}
	return mgr, nil
}
