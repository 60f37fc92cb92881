// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package config is the configuration of the manager: its command line and the Kruise object over it.
package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/platform/logging"
)

// Config is the configuration of the manager.
type Config struct {
	// Table holds all kinds. Set it before adding the flags.
	Table kinds.Table
	// Kinds are the reconciled kinds. Others have no watch, cache or reconciler.
	Kinds []string
	// Unconfirmed counts the objects of kinds waiting for the administrator, -1 if unknown. After Merge, only
	// unconfirmed kinds are left, and none is among Kinds.
	Unconfirmed map[string]int64
	// FeatureGates is the text of --feature-gates, Features its parsed form.
	FeatureGates string
	Features     features.Set
	// Workers is how many objects of one kind are reconciled at once. flagWorkers, by kind, override it where above zero.
	Workers     int
	flagWorkers map[string]*int
	// CloneSetExcludePreparingDelete is scaleStrategy.excludePreparingDelete for all CloneSets.
	CloneSetExcludePreparingDelete bool
	// AssignBroadcastJobPodsByScheduler leaves the pods of BroadcastJobs, each for one node, to the scheduler. Otherwise they are bound at birth.
	AssignBroadcastJobPodsByScheduler bool
	// AssignPodsByScheduler leaves it to the scheduler to bind the pods of DaemonSets.
	AssignPodsByScheduler bool
	// KindWorkers are the workers of single kinds as the Kruise object has them, over all of the above.
	KindWorkers map[string]int
	// Writes is how many writes to pods are in flight at the same time, over all workloads.
	Writes int
	// WriteTimeout is the deadline of one write, ReconcileTimeout of one reconcile.
	WriteTimeout     time.Duration
	ReconcileTimeout time.Duration

	// MetricsAddress and ProbeAddress are where metrics and health are served; "0" serves none.
	MetricsAddress string
	ProbeAddress   string
	// MetricsSecure serves metrics over https, to clients the API server authorizes.
	MetricsSecure bool
	// ProfilingAddress is where profiles are served; "0" serves none.
	ProfilingAddress string
	// WebhookPort serves admission; 0: none. WebhookCertDir holds tls.crt and tls.key; empty: the Operator Lifecycle
	// Manager's folder and, without files there, a certificate of the operator's own.
	WebhookPort    int
	WebhookCertDir string
	// WebhookURL is this process's address for the API server when it runs outside the cluster. ServiceAccount,
	// <namespace>/<name>, then gives the rights; empty: the user's own.
	WebhookURL     string
	ServiceAccount string

	// AcceptUnservedKinds takes over from OpenKruise despite objects of kinds without a controller here.
	AcceptUnservedKinds bool

	// LeaderElect lets only the holder of a lease in Namespace reconcile.
	LeaderElect bool
	Namespace   string
	// NodeDaemon: the operator runs in a cluster and the Kruise object allows it to deploy the node daemon on need.
	NodeDaemon bool
	// Deployment is the operator's own, in Namespace; empty outside of a cluster.
	Deployment    string
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration

	// QPS and Burst limit the requests to the API server; QPS 0: the server limits.
	QPS   float32
	Burst int

	// ResyncPeriod is how often everything in the cache is looked at again although nothing has changed.
	ResyncPeriod time.Duration

	// LogLevel and LogFormat are for package logging. LogLevels is the text of --log-levels; KindLogLevels adds the
	// Kruise object's levels of kinds.
	LogLevel      string
	LogFormat     string
	LogLevels     map[string]string
	KindLogLevels map[string]string

	// AdmissionMode is PreferPolicy or Webhook: the means to check and change requests.
	AdmissionMode string
	// ClientCA is the authority of clients allowed to ask for admission, in PEM; empty: anybody.
	ClientCA string
}

// KnownKinds are the possible values of --kinds.
func (c *Config) KnownKinds() []string { return c.Table.Switchable().Names() }

// AddFlags adds the flags with the operator's defaults.
func (c *Config) AddFlags(flags *pflag.FlagSet) {
	c.addKinds(flags)
	c.addRequests(flags)
	c.addServing(flags)
	c.addInstallation(flags)
	flags.StringVar(&c.LogLevel, "log-level", "info", "error, info, debug, trace, or the highest verbosity as a number.")
	flags.StringToStringVar(&c.LogLevels, "log-levels", nil, "Log levels of the controllers of single kinds, such as StatefulSet=debug.")
	flags.StringVar(&c.AdmissionMode, "admission-mode", "PreferPolicy",
		"PreferPolicy: policies that the API server evaluates by itself, where they can express what is needed. Webhook: only webhooks.")
	flags.StringVar(&c.LogFormat, "log-format", "json", "json or console.")
}

func (c *Config) addKinds(flags *pflag.FlagSet) {
	flags.StringSliceVar(&c.Kinds, "kinds", c.KnownKinds(),
		"Kinds to manage. A kind that is left out has no watch, no cache and no reconciler.")
	flags.StringVar(&c.FeatureGates, "feature-gates", "",
		"Feature gates that differ from their defaults, such as A=true,B=false.")
	flags.IntVar(&c.Workers, "workers", 3, "How many objects of one kind are reconciled at the same time.")
	c.flagWorkers = map[string]*int{}
	for _, kind := range c.Table.Switchable() {
		usage := fmt.Sprintf("How many %ss are reconciled at the same time; 0: as --workers says.", kind.Name)
		c.flagWorkers[kind.Name] = flags.Int(kind.WorkersFlag, kind.Workers, usage)
	}
	flags.BoolVar(&c.CloneSetExcludePreparingDelete, "cloneset-scaling-exclude-preparing-delete", false,
		"Pods that wait at their preDelete hook do not count as replicas of any CloneSet, as with scaleStrategy.excludePreparingDelete for a single one.")
	flags.BoolVar(&c.AssignBroadcastJobPodsByScheduler, "assign-bcj-pods-by-scheduler", true,
		"Pods of BroadcastJobs get an affinity to their node, and the scheduler binds them. Otherwise they are created with spec.nodeName.")
	flags.BoolVar(&c.AssignPodsByScheduler, "assign-pods-by-scheduler", true,
		"The scheduler binds the pods of DaemonSets to their nodes. Otherwise they are created with spec.nodeName, without a check of free resources.")
}

// addRequests adds the limits on requests to the API server.
func (c *Config) addRequests(flags *pflag.FlagSet) {
	flags.IntVar(&c.Writes, "writes", 32, "How many writes to pods are in flight at the same time, over all workloads.")
	flags.DurationVar(&c.WriteTimeout, "write-timeout", 15*time.Second, "Deadline of one write.")
	flags.DurationVar(&c.ReconcileTimeout, "reconcile-timeout", 2*time.Minute, "Deadline of one reconcile.")
	flags.Float32Var(&c.QPS, "qps", 0, "Limit of requests to the API server per second; 0 leaves that to the server's own fairness.")
	flags.IntVar(&c.Burst, "burst", 0, "How many requests may exceed --qps for a moment.")
	flags.DurationVar(&c.ResyncPeriod, "resync-period", 10*time.Hour,
		"How often every object is reconciled although nothing has changed; at least 1s.")
}

func (c *Config) addServing(flags *pflag.FlagSet) {
	flags.StringVar(&c.MetricsAddress, "metrics-bind-address", ":8080", "Address that serves metrics over http; 0 serves none.")
	flags.BoolVar(&c.MetricsSecure, "metrics-secure", true,
		"Serve metrics over https, to those who may get /metrics from the API server; false: over http, to everybody.")
	flags.StringVar(&c.ProbeAddress, "health-probe-bind-address", ":8081", "Address that serves /healthz and /readyz; 0 serves none.")
	flags.StringVar(&c.ProfilingAddress, "pprof-bind-address", "0", "Address that serves profiles of the process; 0 serves none.")
	flags.IntVar(&c.WebhookPort, "webhook-port", 9443, "Port that serves admission; 0 serves none.")
	flags.StringVar(&c.WebhookCertDir, "webhook-cert-dir", "",
		"Directory of the serving certificate, tls.crt and tls.key. When empty, k8s-webhook-server/serving-certs below the temporary directory; "+
			"without files there, the operator makes its own certificate.")
}

// addInstallation adds where the operator runs, and beside whom.
func (c *Config) addInstallation(flags *pflag.FlagSet) {
	flags.StringVar(&c.WebhookURL, "webhook-url", "",
		"Outside of the cluster: where the API server reaches this process, such as https://192.0.2.7:9443; the webhook configurations must call that.")
	flags.StringVar(&c.ServiceAccount, "service-account", "",
		"Outside of the cluster: the service account to act as, <namespace>/<name>. When empty, the user that KUBECONFIG names.")
	flags.BoolVar(&c.AcceptUnservedKinds, "accept-unserved-kinds", false,
		"Take over from OpenKruise although objects exist that no controller would manage. Run kruise-preflight first; it lists them.")
	flags.BoolVar(&c.LeaderElect, "leader-elect", false, "Reconcile only while holding the lease. Needed when more than one replica runs.")
	flags.StringVar(&c.Namespace, "namespace", "kruise-system", "Namespace of the operator itself, and of its lease.")
	flags.StringVar(&c.Deployment, "deployment", "",
		"The operator's own Deployment in --namespace: it owns what the operator deploys for itself. Empty outside of a cluster.")
	flags.DurationVar(&c.LeaseDuration, "leader-elect-lease-duration", 15*time.Second, "How long others wait for a leader that does not renew.")
	flags.DurationVar(&c.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second, "How long a leader tries to renew before it gives up.")
	flags.DurationVar(&c.RetryPeriod, "leader-elect-retry-period", time.Second, "How long to wait between tries to get or renew the lease.")
}

// Complete checks the configuration and derives the rest. Notes are for the user.
func (c *Config) Complete() (notes []string, err error) {
	var faults []error
	for _, kind := range c.Kinds {
		if !slices.Contains(c.KnownKinds(), kind) {
			faults = append(faults, fmt.Errorf("--kinds: unknown kind %q: know %s", kind, strings.Join(c.KnownKinds(), ", ")))
		}
	}
	c.Features, notes, err = features.Parse(c.FeatureGates)
	if err != nil {
		faults = append(faults, fmt.Errorf("--feature-gates: %w", err))
	}
	if c.Workers < 1 {
		faults = append(faults, fmt.Errorf("--workers: %d is less than 1", c.Workers))
	}
	if !slices.Contains(admissionModes(), c.AdmissionMode) {
		faults = append(faults, fmt.Errorf("--admission-mode: unknown mode %q: know %s", c.AdmissionMode, strings.Join(admissionModes(), ", ")))
	}
	faults = append(faults, c.completeLogLevels()...)
	if c.Writes < 2 {
		faults = append(faults, fmt.Errorf("--writes: %d is less than 2", c.Writes))
	}
	if c.WriteTimeout <= 0 || c.ReconcileTimeout <= c.WriteTimeout {
		faults = append(faults, errors.New("--reconcile-timeout must be longer than --write-timeout, and that longer than nothing"))
	}
	if c.ResyncPeriod < time.Second {
		faults = append(faults, fmt.Errorf("--resync-period: %s is less than 1s", c.ResyncPeriod))
	}
	if c.RetryPeriod <= 0 || c.RenewDeadline <= c.RetryPeriod || c.LeaseDuration <= c.RenewDeadline {
		faults = append(faults, errors.New("leader election: the lease duration must be longer than the renew deadline, and that longer than the retry period"))
	}
	if c.QPS > 0 && c.Burst < 1 {
		c.Burst = max(int(c.QPS), 1)
	}
	return notes, errors.Join(faults...)
}

// completeLogLevels merges the log levels of single kinds: the object takes precedence over the flags.
func (c *Config) completeLogLevels() (faults []error) {
	levels := map[string]string{}
	for kind, level := range c.LogLevels {
		if !slices.Contains(c.KnownKinds(), kind) {
			faults = append(faults, fmt.Errorf("--log-levels: unknown kind %q: know %s", kind, strings.Join(c.KnownKinds(), ", ")))
		}
		if _, err := logging.ParseLevel(level); err != nil {
			faults = append(faults, fmt.Errorf("--log-levels: %s: %w", kind, err))
		}
		levels[kind] = level
	}
	maps.Copy(levels, c.KindLogLevels)
	c.KindLogLevels = levels
	return faults
}

// WorkersOf is how many objects of a kind are reconciled at the same time.
func (c *Config) WorkersOf(kind string) int {
	if workers := c.KindWorkers[kind]; workers > 0 {
		return workers
	}
	if workers := ptr.Deref(c.flagWorkers[kind], 0); workers > 0 {
		return workers
	}
	return c.Workers
}

func admissionModes() []string {
	return []string{string(operatorv1alpha1.AdmissionPreferPolicy), string(operatorv1alpha1.AdmissionWebhook)}
}

// Enabled tells if objects of the kind are reconciled.
func (c *Config) Enabled(kind string) bool { return slices.Contains(c.Kinds, kind) }
