// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// The manager of kruise-operator: it runs the controllers and serves admission.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/kube/index"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/logging"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/platform/version"
)

// lease is the name of the lease that the leader holds.
const lease = "kruise-operator-manager"

func main() {
	// Exit as soon as the manager has stopped: the lease is given back by then, and another replica may lead already.
	if err := command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
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
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), c) },
	}
	c.AddFlags(run.Flags())
	root.AddCommand(run)
	return root
}

// run builds the manager and runs it until ctx is done.
func run(ctx context.Context, c *config.Config) error {
	notes, err := c.Complete()
	if err != nil {
		return err
	}
	log, err := logging.New(os.Stderr, c.LogLevel, c.LogFormat)
	if err != nil {
		return err
	}
	ctrl.SetLogger(log)
	klog.SetLogger(log.WithName("client-go"))
	log.Info("Starting", "version", version.String(), "kinds", c.Kinds, "featureGates", c.Features.String())
	for _, note := range notes {
		log.Info("Mind the feature gates", "note", note)
	}

	mgr, err := manager(c)
	if err != nil {
		return err
	}
	own, err := metrics.New(ctrlmetrics.Registry)
	if err != nil {
		return err
	}
	deps := controllers.Deps{Config: c, Metrics: own, Clock: clock.RealClock{}, Log: log.WithName("setup")}
	if err := controllers.Setup(ctx, mgr, deps); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the liveness check: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	return mgr.Start(ctx)
}

func manager(c *config.Config) (ctrl.Manager, error) {
	rest, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w", err)
	}
	rest.UserAgent = version.UserAgent()
	rest.QPS, rest.Burst = -1, 0
	if c.QPS > 0 {
		rest.QPS, rest.Burst = c.QPS, c.Burst
	}
	types, err := scheme.New()
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(rest, ctrl.Options{
		Scheme:                        types,
		Cache:                         index.Cache(controllers.Kinds(c)),
		Metrics:                       metricsserver.Options{BindAddress: c.MetricsAddress},
		HealthProbeBindAddress:        c.ProbeAddress,
		WebhookServer:                 webhook.NewServer(webhook.Options{Port: c.WebhookPort, CertDir: c.WebhookCertDir}),
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
