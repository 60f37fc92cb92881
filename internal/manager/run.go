// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package manager runs the operator: it lets the Kruise object override the flags, builds a manager and runs it. When the
// configuration changes, the manager ends and the process builds another one (docs/adr/0012-restart-to-reconfigure.md).
//
// Two managers of one process never run at the same time: when one does not end in time, the process exits.
package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/controllers/operatorconfig"
	"github.com/kruise-operator/kruise-operator/internal/confirmation"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/logging"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
	"github.com/kruise-operator/kruise-operator/internal/platform/version"
	"github.com/kruise-operator/kruise-operator/internal/webhookserving"
)

const (
	// graceTimeout is how long the runnables of a manager may take to end: twice the deadline of a write.
	graceTimeout = 30 * time.Second
	// endTimeout is how long a manager may take to end in all, with the lease released. Then the process exits.
	endTimeout = time.Minute
	// leaveTimeout limits how long the process, at its end, tries to remove this replica from the status.
	leaveTimeout = 2 * time.Second
)

// errRestart is the cause for which a manager ends when another one is to replace it.
var errRestart = errors.New("the configuration has changed")

// process holds everything that stays the same for the whole process, while managers are replaced.
type process struct {
	flags config.Config
	// given are the names of the flags that were set.
	given   sets.Set[string]
	levels  *logging.Levels
	log     logr.Logger
	metrics *metrics.Metrics
	// server is the configuration of the connection to the API server; direct reads from the server and not from a cache.
	server *rest.Config
	direct client.Client
	// serving and webhooks are nil until the first manager is built, and where no webhooks are served.
	serving  *webhookserving.Serving
	webhooks *webhookserving.Server
}

// collectAt is the garbage collection target percentage (GOGC) unless $GOGC is set.
const collectAt = 125

// Run runs the operator until ctx is done. An error means that the process has to exit: a manager may still be running.
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
	if p.metrics, err = metrics.New(ctrlmetrics.Registry); err != nil {
		return err
	}
	if p.server, p.direct, err = connectAs(ctx, flags.ServiceAccount); err != nil {
		return err
	}
	for {
		restart, err := p.runOnce(ctx)
		if err != nil || !restart {
			return err
		}
		p.log.Info("Restarting")
		debug.FreeOSMemory() // the caches of the manager that has ended
	}
}

// runOnce builds a manager and runs it until ctx is done or the configuration has changed. restart says whether to build another one.
func (p *process) runOnce(ctx context.Context) (restart bool, err error) {
	operator, c, err := p.configure(ctx)
	if err != nil {
		return false, err
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	operator.Restart = func() { cancel(errRestart) }
	mgr, err := p.build(ctx, running, c, operator)
	if err != nil {
		return false, err
	}
	if err := runToEnd(running, mgr, endTimeout); err != nil {
		return false, err
	}
	if ctx.Err() == nil && errors.Is(context.Cause(running), errRestart) {
		return true, nil
	}
	if operator.Watch {
		leaving, end := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer end()
		if err := operatorconfig.Leave(leaving, p.direct, operator.Self); err != nil {
			p.log.Info("The status still names this replica", "err", err.Error())
		}
	}
	return false, nil
}

// runnable is what runToEnd needs of a manager.
type runnable interface {
	Start(ctx context.Context) error
}

// runToEnd runs a manager until ctx is done and everything that it runs has ended. When that takes longer than the limit, it returns an error, and the
// caller has to exit: nothing else would stop the rest.
func runToEnd(ctx context.Context, mgr runnable, limit time.Duration) error {
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		return fmt.Errorf("the manager has not ended within %s", limit)
	}
}

// configure lets the Kruise object override the flags. It returns the configuration, and what the reconciler of the object needs from this package.
func (p *process) configure(ctx context.Context) (operatorconfig.Dependencies, *config.Config, error) {
	object, served, err := config.Load(ctx, p.direct)
	if err != nil {
		return operatorconfig.Dependencies{}, nil, err
	}
	flags := p.flags
	if flags.Unconfirmed, err = p.unconfirmed(ctx); err != nil {
		return operatorconfig.Dependencies{}, nil, err
	}
	flags.ProbesPods = p.probesPods(ctx)
	merged, err := config.Merge(flags, p.given, config.SpecOf(object))
	if err != nil {
		return operatorconfig.Dependencies{}, nil, err
	}
	c := &merged.Config
	d := operatorconfig.Dependencies{
		Watch: served, Flags: flags, Given: p.given, Running: c.Hash(), Self: self(c), Alone: !c.LeaderElect, Levels: p.levels,
		Versions: []operatorv1alpha1.ComponentVersion{{Name: "operator", Version: version.String()}},
	}
	if fault := unusable(ctx, c); fault != nil && merged.Sources["metrics.bindAddress"] == config.FromObject {
		d.Faults = append(d.Faults, "spec.metrics.bindAddress: "+fault.Error())
		c.MetricsAddress = p.flags.MetricsAddress
	}
	p.log.Info("Starting", "version", version.String(), "kinds", c.Kinds, "featureGates", c.Features.String(), "configuration", merged.Summary())
	for _, note := range merged.Notes {
		p.log.Info("Feature gates", "note", note)
	}
	for _, fault := range append(merged.Faults, d.Faults...) {
		p.log.Info("Left out of the configuration", "fault", fault)
	}
	return d, c, nil
}

// unconfirmed returns the kinds that have objects and that the earlier version did not serve. Only the Lease records what that version served, so there
// are none without leader election.
func (p *process) unconfirmed(ctx context.Context) (confirmation.Waiting, error) {
	if !p.flags.LeaderElect {
		return nil, nil //nolint:nilnil // none is an answer
	}
	ctx, cancel := context.WithTimeout(ctx, p.flags.WriteTimeout)
	defer cancel()
	return confirmation.Begin(ctx, p.direct, p.direct.RESTMapper(), leaseOf(&p.flags), p.flags.Table)
}

// probesPods says whether there is anything to probe now. When the list fails, the answer is yes.
func (p *process) probesPods(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, p.flags.WriteTimeout)
	defer cancel()
	for _, kind := range p.flags.Table.Where(func(k kinds.Kind) bool { return k.Needs.ProbedPods }) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupKind().WithVersion(kind.Storage).GroupVersion().WithKind(kind.Name + "List"))
		err := p.direct.List(ctx, list, client.Limit(1))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err != nil || len(list.Items) > 0 {
			return true
		}
	}
	return false
}

// leaseOf is the Lease of the leader.
func leaseOf(c *config.Config) client.ObjectKey {
	return client.ObjectKey{Namespace: c.Namespace, Name: confirmation.LeaseName}
}

// self returns the name of this replica: the name of its pod, or else of its machine with the port that distinguishes it from other processes there.
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

// unusable says why metrics cannot be served at their address, so that a wrong address in the Kruise object does not keep the operator from starting.
// It compares the ports that this process listens on only later, because they still look free.
func unusable(ctx context.Context, c *config.Config) error {
	for flag, address := range map[string]string{
		"--health-probe-bind-address": c.ProbeAddress, "--pprof-bind-address": c.ProfilingAddress, "--webhook-port": ":" + strconv.Itoa(c.WebhookPort),
	} {
		if overlap(c.MetricsAddress, address) {
			return fmt.Errorf("%q is taken by %s", c.MetricsAddress, flag)
		}
	}
	return listenable(ctx, c.MetricsAddress)
}

// overlap says whether two addresses have the same port of the same host. Port 0 stands for any free port, and at an address without a port nothing is
// served.
func overlap(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	numberA, _ := strconv.Atoi(portA)
	numberB, _ := strconv.Atoi(portB)
	if errA != nil || errB != nil || numberA != numberB || numberA == 0 {
		return false
	}
	all := func(host string) bool { return host == "" || host == "0.0.0.0" || host == "::" }
	return hostA == hostB || all(hostA) || all(hostB)
}

// listenable says why nobody can listen at an address.
func listenable(ctx context.Context, address string) error {
	if address == "0" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	return listener.Close()
}
