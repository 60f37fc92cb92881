// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/daemon/cri/critest"
	"github.com/kruise-operator/kruise-operator/tests/framework/images"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// atRestOnNode runs the daemon as a process of its own on a node with some pods, over a runtime without anything, and says what it uses at rest.
func (b *run) atRestOnNode(ctx context.Context) (figures []figure, err error) {
	for _, pods := range []int{10, 250} {
		f, err := b.oneDaemon(ctx, pods)
		if err != nil {
			return figures, err
		}
		figures = append(figures, f)
	}
	return figures, nil
}

func (b *run) oneDaemon(ctx context.Context, pods int) (f figure, err error) {
	node := fmt.Sprintf("daemon-%d", pods)
	b.progress(nodeDaemon.kind, restScenario, 0, fmt.Sprintf("%d pods on the node", pods))
	if err := b.nodes.Add(ctx, node, nil); err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, b.nodes.Remove(context.WithoutCancel(ctx), node)) }()
	r, err := b.bare(ctx, node)
	if err != nil {
		return f, err
	}
	names := make([]string, pods)
	for i := range names {
		names[i] = fmt.Sprintf("pod-%d", i)
	}
	err = parallel(ctx, names, func(ctx context.Context, name string) error {
		if err := r.createOn(ctx, node, name, podTemplate("bench", imageBefore)); err != nil {
			return err
		}
		return r.patchConditions(ctx, name, corev1.ConditionTrue, "", "InPlaceUpdateReady", "KruisePodReady")
	})
	if err != nil {
		return f, err
	}
	if _, err := r.awaitReady(ctx, pods, imageBefore); err != nil {
		return f, err
	}
	before, after, err := b.daemonProcess(ctx, node)
	if err != nil {
		return f, err
	}
	cpu := float64((after.CPU - before.CPU).Microseconds()) / float64(b.options.idle.Microseconds()) * 1000
	f = figure{Scenario: restScenario, Pods: pods, Runs: 1, Seconds: b.options.idle.Seconds(), PeakRSSMiB: float64(after.PeakRSS) / (1 << 20), Note: fmt.Sprintf(
		"RSS %.1f MiB, %.1f of it anonymous, CPU %.1f m of a core over %s; wanted: at most 30 MiB with 10 pods, 50 with 250, 2 m",
		float64(after.RSS)/(1<<20), float64(after.Anonymous)/(1<<20), cpu, b.options.idle)}
	return f, r.clear(ctx)
}

// daemonProcess runs the daemon of a node, and says what it had used when it was at rest, and after it has been so for a while. Meanwhile it is asked
// whether it lives and is ready, as a kubelet does: what its answers need is resident, too.
func (b *run) daemonProcess(ctx context.Context, node string) (before, after operator.Usage, err error) {
	folder, err := os.MkdirTemp("", "bench")
	if err != nil {
		return before, after, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	socket := filepath.Join(folder, "cri.sock")
	stop, err := (&critest.Runtime{}).Serve(ctx, socket)
	if err != nil {
		return before, after, err
	}
	defer stop()
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		return before, after, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	program, err := images.Compile(ctx, images.NodeDaemon(""))
	if err != nil {
		return before, after, err
	}
	port, err := b.cluster.FreePort()
	if err != nil {
		return before, after, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	cmd := exec.CommandContext(ctx, program, "--node="+node, "--addr="+address, "--runtime-socket="+socket)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+b.cluster.AdminKubeconfig(), "GOMEMLIMIT=134217728") // the limit of its DaemonSet
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return before, after, err
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	failed := func(err error) (operator.Usage, operator.Usage, error) {
		text, _ := os.ReadFile(log.Name())
		return before, after, fmt.Errorf("the daemon: %w\n%s", err, text)
	}
	if err := startedDaemon(ctx, address); err != nil {
		return failed(err)
	}
	if err := askDaemon(ctx, address, settling); err != nil {
		return failed(err)
	}
	if before, err = operator.UsageOf(cmd.Process.Pid); err != nil {
		return failed(err)
	}
	if err := askDaemon(ctx, address, b.options.idle); err != nil {
		return failed(err)
	}
	if after, err = operator.UsageOf(cmd.Process.Pid); err != nil {
		return failed(err)
	}
	return before, after, nil
}

const (
	// settling is how long the daemon has to come to rest when it is ready. It gives memory back each minute: what is measured must not be just then.
	settling = 65 * time.Second
	// asking is the period of the probes of its DaemonSet.
	asking = 20 * time.Second
)

// asker makes a connection for each question, as a kubelet does.
var asker = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}

// startedDaemon waits until the daemon has read its objects and its runtime answers.
func startedDaemon(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		err := askOnce(ctx, address, "/readyz")
		if err == nil {
			return nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w", err)
		}
	}
}

// askDaemon asks the daemon for so long, now and after each period, whether it lives and is ready.
func askDaemon(ctx context.Context, address string, span time.Duration) error {
	end := time.After(span)
	period := time.NewTicker(asking)
	defer period.Stop()
	for {
		for _, path := range []string{"/healthz", "/readyz"} {
			if err := askOnce(ctx, address, path); err != nil {
				return err
			}
		}
		select {
		case <-period.C:
		case <-end:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func askOnce(ctx context.Context, address, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := asker.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // nothing was written
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s says %s", path, response.Status)
	}
	return nil
}
