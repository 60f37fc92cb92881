// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package manager runs the operator: the Kruise object overrides the flags, then a manager is built and run. A
// changed configuration ends the process, to be started again (docs/adr/0012-restart-to-reconfigure.md).
package manager

import (
	"cmp"
	"context"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/controllers/operatorconfig"
	"github.com/kruise-operator/kruise-operator/internal/confirmation"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/logging"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
	"github.com/kruise-operator/kruise-operator/internal/platform/version"
	"github.com/kruise-operator/kruise-operator/internal/webhookserving"
)

// graceTimeout is how long the runnables of a manager may take to end: twice the deadline of a write.
const graceTimeout = 30 * time.Second

// process exists before the manager.
type process struct {
	flags config.Config
	// given names the flags set.
	given   sets.Set[string]
	levels  *logging.Levels
	log     logr.Logger
	metrics *metrics.Metrics
	// server is the configuration of the connection to the API server; direct reads from the server and not from a cache.
	server *rest.Config
	direct client.Client
	// serving is nil where no webhooks are served.
	serving *webhookserving.Serving
	// draining makes the process not ready before it ends.
	draining atomic.Bool
}

// collectAt is the garbage collection target percentage (GOGC) unless $GOGC is set.
const collectAt = 125

// Run runs the operator until ctx is done or the configuration has changed.
func Run(ctx context.Context, flags config.Config, given sets.Set[string]) error {
	if _, err := config.Merge(flags, given, nil); err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	p := &process{flags: flags, given: given}
	var err error
	if p.levels, err = logging.NewLevels(flags.LogLevel, nil); err != nil {
		return err
	}
	if p.log, err = logging.New(os.Stderr, p.levels, flags.LogFormat); err != nil {
		return err
	}
	ctrl.SetLogger(p.log)
	klog.SetLogger(p.log.WithName("client-go"))
	p.metrics = metrics.New(ctrlmetrics.Registry)
	if p.server, p.direct, err = connectAs(ctx, flags.ServiceAccount); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	operator, c, err := p.configure(ctx)
	if err != nil {
		return err
	}
	operator.End = end
	mgr, err := p.build(ctx, c, operator)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// configure lets the Kruise object override the flags. It returns the configuration and this package's part for
// the object's reconciler.
func (p *process) configure(ctx context.Context) (operatorconfig.Dependencies, *config.Config, error) {
	object, served, err := config.Load(ctx, p.direct)
	if err != nil {
		return operatorconfig.Dependencies{}, nil, err
	}
	flags := p.flags
	if flags.Unconfirmed, err = p.unconfirmed(ctx); err != nil {
		return operatorconfig.Dependencies{}, nil, err
	}
	merged, err := config.Merge(flags, p.given, config.SpecOf(object))
	if err != nil {
		return operatorconfig.Dependencies{}, nil, err
	}
	c := &merged.Config
	d := operatorconfig.Dependencies{
		Watch: served, Flags: flags, Given: p.given, Running: c.Hash(), Self: self(), Levels: p.levels, Draining: &p.draining,
		Versions: []operatorv1alpha1.ComponentVersion{{Name: "operator", Version: version.String()}},
	}
	if fault := unusable(ctx, c); fault != nil && c.MetricsAddress != p.flags.MetricsAddress {
		d.Faults = append(d.Faults, "spec.metrics.bindAddress: "+fault.Error())
		c.MetricsAddress = p.flags.MetricsAddress
	}
	p.log.Info("Starting", "version", version.String(), "kinds", c.Kinds, "featureGates", c.Features.String(), "configuration", c.Hash(),
		"workers", c.Workers, "metrics", c.MetricsAddress, "admission", c.AdmissionMode)
	for _, note := range merged.Notes {
		p.log.Info("Feature gates", "note", note)
	}
	for _, fault := range append(merged.Faults, d.Faults...) {
		p.log.Info("Left out of the configuration", "fault", fault)
	}
	return d, c, nil
}

// unconfirmed returns the kinds with objects the earlier version did not serve. Only the Lease records its
// kinds, so without leader election there are none.
func (p *process) unconfirmed(ctx context.Context) (confirmation.Waiting, error) {
	if !p.flags.LeaderElect {
		return nil, nil //nolint:nilnil // none is an answer
	}
	ctx, cancel := context.WithTimeout(ctx, p.flags.WriteTimeout)
	defer cancel()
	return confirmation.Begin(ctx, p.direct, p.direct.RESTMapper(), leaseOf(&p.flags), p.flags.Table)
}

// leaseOf is the Lease of the leader.
func leaseOf(c *config.Config) client.ObjectKey {
	return client.ObjectKey{Namespace: c.Namespace, Name: confirmation.LeaseName}
}

// self names this replica by its pod, or its machine.
func self() string {
	host, _ := os.Hostname() // inside of a cluster that of the pod
	return cmp.Or(os.Getenv("POD_NAME"), host, "localhost")
}
