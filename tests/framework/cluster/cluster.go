// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/internal/process"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/internal/rundir"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/pki"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode"
)

// ErrStopped is returned when something is asked of a cluster after Stop.
var ErrStopped = errors.New("the cluster is stopped")

// Process is a program with the cluster's lifetime.
type Process = process.Process

// Cluster is a running control plane. Its methods may be called from several goroutines.
type Cluster struct {
	options    Options
	dir        *rundir.Dir
	logDir     string
	programs   binaries.Set
	ca         *pki.Authority
	frontProxy *pki.Authority
	admin      pki.Pair

	// apiServerSteps lets one caller at a time stop or start the API server.
	apiServerSteps sync.Mutex
	apiServerPort  int
	// apiServerFlags are the last restart's.
	apiServerFlags []string

	nodes realNodes

	mutex     sync.Mutex
	apiServer *Process
	processes map[*Process]struct{}
	onStop    []func() error
	stopped   bool
	stopOnce  sync.Once
	stopErr   error
}

// Start builds missing programs, starts a cluster, and returns when it is usable. ctx
// bounds the start only; the cluster runs until Stop or the end of this process. A failed
// Start leaves nothing behind.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if options.Progress == nil {
		options.Progress = io.Discard
	}
	if options.RealNodes > 0 {
		// Known before anything is built or started.
		if err := realnode.Check(); err != nil {
			return nil, err
		}
	}
	programs, err := binaries.Ensure(ctx, binaries.Options{
		Version:  options.KubernetesVersion,
		Progress: options.Progress,
	}, options.programs()...)
	if err != nil {
		return nil, err
	}
	dir, err := rundir.New()
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: options, dir: dir, programs: programs, processes: map[*Process]struct{}{}}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a cluster: %w", err), c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	logDir, kept, err := c.options.makeLogDir(c.Dir(), c.Name())
	if err != nil {
		return err
	}
	c.logDir = logDir
	if kept {
		fmt.Fprintf(c.options.Progress, "logs of cluster %s are kept in %s\n", c.Name(), logDir)
	}
	if err := c.makePKI(); err != nil {
		return err
	}
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.startRealNodes(ctx) })
	if c.options.ControlPlane != APIServerOnly {
		group.Go(func() error { return c.startControllerManager(ctx) })
		group.Go(func() error { return c.startScheduler(ctx) })
		group.Go(func() error { return c.waitForServiceAccount(ctx) })
	}
	return group.Wait()
}

// Stop ends every program of the cluster and deletes its folder. It may be called again and returns the same result.
func (c *Cluster) Stop() error {
	c.stopOnce.Do(func() { c.stopErr = c.stop() })
	return c.stopErr
}

func (c *Cluster) stop() error {
	c.mutex.Lock()
	hooks := c.onStop
	c.onStop = nil
	c.mutex.Unlock()
	var errs []error
	for _, hook := range slices.Backward(hooks) {
		errs = append(errs, hook())
	}

	c.mutex.Lock()
	c.stopped = true
	running := c.processes
	c.processes = nil
	c.mutex.Unlock()
	// Nobody needs the programs' data, so they get no time to end in order.
	for p := range running {
		errs = append(errs, p.Stop(0))
	}
	errs = append(errs, process.KillMarked(c.Dir()), c.dir.Remove())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stopping the cluster: %w", err)
	}
	return nil
}

// OnStop adds something to be done at the beginning of Stop, while the API server still runs. The last added is done first.
func (c *Cluster) OnStop(hook func() error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.onStop = append(c.onStop, hook)
}

// Name returns a short name, unique among the user's running clusters, for things outside
// the cluster's folder.
func (c *Cluster) Name() string {
	return c.dir.Name()
}

// Dir returns the cluster's folder. Stop deletes it, or a later Start when this process
// dies.
func (c *Cluster) Dir() string {
	return c.dir.Path()
}

// Version returns the running Kubernetes version, such as v1.37.1.
func (c *Cluster) Version() string {
	return c.programs.Version
}

// PKI returns the cluster's certificate authority. It is trusted for clients, for kubelets and for the API server.
func (c *Cluster) PKI() *pki.Authority {
	return c.ca
}

// CA returns the certificate of the cluster's authority in PEM.
func (c *Cluster) CA() []byte {
	return c.ca.Cert()
}

// APIServerURL returns the API server's address on loopback. It stays the same when the API server is restarted.
func (c *Cluster) APIServerURL() string {
	return "https://127.0.0.1:" + strconv.Itoa(c.apiServerPort)
}

// FreePort claims a TCP port for the cluster, until Stop.
func (c *Cluster) FreePort() (int, error) {
	return c.dir.Port()
}

// Logs returns the path of the log of a component or of a program under StartProcess's
// name.
func (c *Cluster) Logs(component string) string {
	return filepath.Join(c.logDir, component+".log")
}

// AuditLog returns the path of the audit log, one JSON event of audit.k8s.io/v1 for each line. A request's event is in the
// file before its answer is sent. The path is empty when Options.Audit is not set.
func (c *Cluster) AuditLog() string {
	if c.options.Audit == nil {
		return ""
	}
	return c.Logs("audit")
}

// StartProcess runs a further program: it has a log under its name, and ends when the
// cluster is stopped or this process dies. Its environment is PATH, HOME, TMPDIR and env.
// Its children end with Stop as well, or at the latest with a later Start, unless they
// change their environment.
func (c *Cluster) StartProcess(name, path string, args, env []string) (*Process, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.stopped {
		return nil, fmt.Errorf("starting %s: %w", name, ErrStopped)
	}
	p, err := process.Start(process.Spec{
		Name:    name,
		Path:    path,
		Args:    args,
		Env:     env,
		Dir:     c.Dir(),
		Marker:  c.Dir(),
		LogFile: c.Logs(name),
	})
	if err != nil {
		return nil, err
	}
	c.processes[p] = struct{}{}
	return p, nil
}

// StopProcess ends a program of StartProcess and waits for it. One already ended is no
// error.
func (c *Cluster) StopProcess(p *Process) error {
	c.mutex.Lock()
	delete(c.processes, p)
	c.mutex.Unlock()
	return p.Stop(0)
}

// Suspend lets a component stand still for a time, as on a machine that is too busy.
func (c *Cluster) Suspend(component string, pause time.Duration) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for p := range c.processes {
		if p.Name() == component {
			if err := syscall.Kill(p.PID(), syscall.SIGSTOP); err != nil {
				return fmt.Errorf("suspending %s: %w", component, err)
			}
			time.Sleep(pause)
			if err := syscall.Kill(p.PID(), syscall.SIGCONT); err != nil {
				return fmt.Errorf("waking %s: %w", component, err)
			}
			return nil
		}
	}
	return fmt.Errorf("suspending %s: it does not run", component)
}

// Exited reports programs, also of real nodes, that ended unasked, with the end of their
// logs. A healthy cluster gives nil.
func (c *Cluster) Exited() error {
	var errs []error
	for _, node := range c.RealNodes() {
		errs = append(errs, node.Exited())
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for p := range c.processes {
		errs = append(errs, p.Err())
	}
	return errors.Join(errs...)
}

// write stores a file in the cluster's folder and returns its path.
func (c *Cluster) write(name string, content []byte) (string, error) {
	path := filepath.Join(c.Dir(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("writing %s: %w", name, err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return "", fmt.Errorf("writing %s: %w", name, err)
	}
	return path, nil
}
