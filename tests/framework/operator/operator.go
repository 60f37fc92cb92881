// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package operator runs the operator as a local process against a test cluster, like `make
// install run`: built from this tree, with its own service account's rights, and with
// webhooks called by URL.
package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/images"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
	"github.com/kruise-operator/kruise-operator/tests/framework/reach"
)

// ServiceAccountUser is the operator's user name in the audit log.
const ServiceAccountUser = "system:serviceaccount:kruise-system:kruise-operator-manager"

// Options configure an operator. The zero value has the product's defaults and no leader election.
type Options struct {
	// Name tells several operators on one cluster apart, in log names. When empty, it is "operator".
	Name string
	// Args are added to the command line of `run`.
	Args []string
	// LeaderElect turns leader election on: a killed operator leaves a lease behind.
	LeaderElect bool
	// NoWait returns as soon as the process runs, for standbys and operators meant not to
	// become ready.
	NoWait bool
	// NoWebhooks leaves admission and conversion to another operator on the same cluster.
	NoWebhooks bool
	// Env is added to the environment.
	Env []string
	// Kubeconfig is how `run` reaches the API server, for a proxy in between. When empty, it is the cluster's administrator.
	Kubeconfig string
}

// Operator is one running process.
type Operator struct {
	cluster  *cluster.Cluster
	options  Options
	program  string
	ports    ports
	process  atomic.Pointer[cluster.Process]
	stopping *atomic.Bool // of the present Run
	starts   int
	baseCPU  time.Duration
	basePeak int64
}

type ports struct{ webhook, metrics, probes int }

// Build returns the path of the operator in the cluster's folder, compiled from this tree: once for all suites, unless the tree changes.
func Build(ctx context.Context, c *cluster.Cluster) (string, error) {
	program := filepath.Join(c.Dir(), "kruise-operator")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := images.CompileTo(ctx, images.Manager(""), program); err != nil {
		return "", err
	}
	return program, nil
}

// Start builds the operator, installs it, runs it and waits until it is ready to be asked and, without leader election, acts.
func Start(ctx context.Context, c *cluster.Cluster, options Options) (*Operator, error) {
	o, err := New(ctx, c, options)
	if err != nil {
		return nil, err
	}
	if err := o.Install(ctx); err != nil {
		return nil, err
	}
	return o, o.Run(ctx)
}

// StartForTest is Start for the duration of a test.
func StartForTest(t cluster.TB, c *cluster.Cluster, options Options) *Operator {
	t.Helper()
	o, err := Start(t.Context(), c, options)
	if err != nil {
		t.Fatalf("starting %s: %v", options.Name, err)
	}
	t.Cleanup(func() {
		if err := o.Stop(); err != nil {
			t.Errorf("stopping %s: %v", options.Name, err)
		}
	})
	return o
}

// New builds the operator and neither installs nor runs it.
func New(ctx context.Context, c *cluster.Cluster, options Options) (*Operator, error) {
	if options.Name == "" {
		options.Name = "operator"
	}
	program, err := Build(ctx, c)
	if err != nil {
		return nil, err
	}
	o := &Operator{cluster: c, options: options, program: program}
	for _, port := range []*int{&o.ports.webhook, &o.ports.metrics, &o.ports.probes} {
		if *port, err = c.FreePort(); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// Program is the path of the binary.
func (o *Operator) Program() string { return o.program }

// SetProgram makes the next Run run another binary.
func (o *Operator) SetProgram(path string) { o.program = path }

// SetArgs replaces the next Run's additional arguments.
func (o *Operator) SetArgs(args ...string) { o.options.Args = args }

// WebhookURL is where the API server reaches this operator.
func (o *Operator) WebhookURL() string { return "https://127.0.0.1:" + strconv.Itoa(o.ports.webhook) }

// Install installs CRDs, roles and webhook configurations.
func (o *Operator) Install(ctx context.Context) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	return install.Install(ctx, c, install.Options{WebhookURL: o.WebhookURL()})
}

// Uninstall undoes Install.
func (o *Operator) Uninstall(ctx context.Context) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	return install.Uninstall(ctx, c, install.Options{})
}

// CheckReached returns an error when the API server does not reach the webhooks of this operator.
func (o *Operator) CheckReached(ctx context.Context) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	return reach.Check(ctx, c, o.WebhookURL(), reach.Kinds()...)
}

// client is one with the rights of the cluster's administrator.
func (o *Operator) client() (client.Client, error) {
	types, err := scheme.New()
	if err != nil {
		return nil, err
	}
	return client.New(o.cluster.Config(), client.Options{Scheme: types})
}

// Run starts the process, again after Stop or Kill, and waits until it is ready.
func (o *Operator) Run(ctx context.Context) error {
	o.starts++
	webhooks := []string{"--webhook-url=" + o.WebhookURL(), "--webhook-port=" + strconv.Itoa(o.ports.webhook)}
	if o.options.NoWebhooks {
		webhooks = []string{"--webhook-port=0"}
	}
	args := slices.Concat([]string{
		"run",
		"--service-account=kruise-system/kruise-operator-manager",
		"--metrics-bind-address=127.0.0.1:" + strconv.Itoa(o.ports.metrics), "--metrics-secure=false",
		"--health-probe-bind-address=127.0.0.1:" + strconv.Itoa(o.ports.probes),
		"--leader-elect=" + strconv.FormatBool(o.options.LeaderElect),
	}, webhooks, o.options.Args)
	env := append([]string{"KUBECONFIG=" + cmp.Or(o.options.Kubeconfig, o.cluster.AdminKubeconfig())}, o.options.Env...)
	start := func() (*cluster.Process, error) { return o.cluster.StartProcess(o.options.Name, o.program, args, env) }
	process, err := start()
	if err != nil {
		return err
	}
	o.stopping = new(atomic.Bool)
	o.process.Store(process)
	go o.startAgain(process, start, o.stopping)
	if o.options.NoWait {
		return nil
	}
	return o.WaitReady(ctx)
}

// startAgain starts the process again whenever it has ended without an error, as its Deployment does when the configuration has changed, until it is
// stopped.
func (o *Operator) startAgain(process *cluster.Process, start func() (*cluster.Process, error), stopping *atomic.Bool) {
	for {
		<-process.Done()
		if !endedWell(process) || stopping.Load() {
			return
		}
		next, err := start()
		if err != nil {
			return
		}
		process = next
		o.process.Store(process)
		if stopping.Load() {
			_ = o.cluster.StopProcess(process)
		}
	}
}

// WaitReady returns when the operator answers its readiness probe.
func (o *Operator) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	url := fmt.Sprintf("http://127.0.0.1:%d/readyz", o.ports.probes)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := get(ctx, url); err == nil {
			return nil
		}
		if process := o.process.Load(); process.Err() != nil && !endedWell(process) {
			return fmt.Errorf("the operator ended: %w", process.Err())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the operator to become ready: %w; its log is %s", ctx.Err(), o.Log())
		}
	}
}

// Log is the path of the process's log; it goes on over restarts.
func (o *Operator) Log() string { return o.cluster.Logs(o.options.Name) }

// Done is closed when the process has ended.
func (o *Operator) Done() <-chan struct{} { return o.process.Load().Done() }

// endedWell: the process has ended without an error.
func endedWell(p *cluster.Process) bool {
	return p.Err() != nil && strings.Contains(p.Err().Error(), "exit status 0")
}

// PID is the process ID.
func (o *Operator) PID() int { return o.process.Load().PID() }

// Kill ends the process with SIGKILL, as a crash or a lost node does.
func (o *Operator) Kill() error {
	o.stopping.Store(true)
	o.account()
	return o.cluster.StopProcess(o.process.Load())
}

// Stop ends the process with SIGTERM and waits: the lease is released.
func (o *Operator) Stop() error {
	o.stopping.Store(true)
	o.account()
	process := o.process.Load()
	return errors.Join(process.Stop(30*time.Second), o.cluster.StopProcess(process))
}

// Metrics returns the operator's metrics in text form.
func (o *Operator) Metrics(ctx context.Context) (string, error) {
	return get(ctx, fmt.Sprintf("http://127.0.0.1:%d/metrics", o.ports.metrics))
}

// MetricsPort is where the operator serves its metrics.
func (o *Operator) MetricsPort() int { return o.ports.metrics }

// Reconciles is how often a controller of the present process has reconciled, whatever came of it.
func (o *Operator) Reconciles(ctx context.Context, controller string) (int, error) {
	text, err := o.Metrics(ctx)
	if err != nil {
		return 0, err
	}
	sum := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, `controller_runtime_reconcile_total{controller="`+controller+`"`) {
			continue
		}
		_, value, _ := strings.Cut(line, "} ")
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			return 0, fmt.Errorf("reading %q: %w", line, err)
		}
		sum += int(n)
	}
	return sum, nil
}

// Usage is the operator's use so far, over all restarts through this value.
type Usage struct {
	// CPU is user and system time.
	CPU time.Duration
	// PeakRSS is the highest resident set size, in bytes. Linux only.
	PeakRSS int64
	// RSS is the present one, in bytes. Linux only.
	RSS int64
	// Anonymous is the part without a file, not reclaimable by the kernel: the heap, not
	// the program. Linux only.
	Anonymous int64
}

// Usage reads the process's use of resources.
func (o *Operator) Usage() (Usage, error) {
	u, err := processUsage(o.process.Load().PID())
	u.CPU += o.baseCPU
	u.PeakRSS = max(u.PeakRSS, o.basePeak)
	return u, err
}

// account keeps the process's use: the kernel forgets it at its end.
func (o *Operator) account() {
	if u, err := processUsage(o.process.Load().PID()); err == nil {
		o.baseCPU += u.CPU
		o.basePeak = max(o.basePeak, u.PeakRSS)
	}
}

// Signal sends a signal to the process alone.
func (o *Operator) Signal(s syscall.Signal) error { return syscall.Kill(o.process.Load().PID(), s) }

// UsageOf reads a process's use of resources.
func UsageOf(pid int) (Usage, error) { return processUsage(pid) }

func processUsage(pid int) (Usage, error) {
	if runtime.GOOS != "linux" {
		return Usage{}, nil
	}
	var u Usage
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, err
	}
	// The command's name, in parentheses, may hold spaces: count fields behind it. See proc(5): utime is field 14, stime 15.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return u, fmt.Errorf("/proc/%d/stat has %d fields behind the name, want at least 13", pid, len(fields))
	}
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return u, err
		}
		u.CPU += time.Duration(ticks) * (time.Second / 100) // USER_HZ is 100 on every Linux that Go supports
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		for prefix, into := range map[string]*int64{"VmHWM:": &u.PeakRSS, "VmRSS:": &u.RSS, "RssAnon:": &u.Anonymous} {
			if value, found := strings.CutPrefix(line, prefix); found {
				kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
				if err != nil {
					return u, err
				}
				*into = kib << 10
			}
		}
	}
	return u, nil
}

func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", url, response.Status)
	}
	return string(body), nil
}
