// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command nodeinit is process 1 of a node's own process, mount, network, host name and IPC
// namespace. It prepares the node's file system, starts its programs, collects orphans, and
// ends the node when its standard input ends: at the owner's wish or death, so a node never
// outlives its owner.
//
// When process 1 of a process namespace ends, the kernel kills the others and drops the
// mounts, interfaces and namespaces only they used. nodeinit removes the rest: the control
// groups and the node's folder.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode/internal/nodespec"
)

const (
	// readyTimeout is how long one process of the node may take to become ready.
	readyTimeout  = 30 * time.Second
	probeInterval = 5 * time.Millisecond
	probeTimeout  = 2 * time.Second
)

func main() {
	// The owner decides when the node ends, by closing standard input. Ctrl-C in a terminal reaches
	// the whole process group; acting on it here would race with the owner.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)

	input := json.NewDecoder(os.Stdin)
	var spec nodespec.Spec
	if err := input.Decode(&spec); err != nil {
		// Nothing has been set up: the owner ended before its request.
		fmt.Fprintln(os.Stderr, "reading the description of the node:", err)
		os.Exit(1)
	}
	n := &node{spec: spec, events: json.NewEncoder(os.Stdout)}
	if err := n.run(input); err != nil {
		n.report(nodespec.Event{Error: err.Error()})
	}
	if err := n.end(); err != nil {
		fmt.Fprintln(os.Stderr, "removing the node:", err)
		os.Exit(1)
	}
}

// node is the running node.
type node struct {
	spec      nodespec.Spec
	abandoned chan struct{} // closed when the input has ended
	events    *json.Encoder
	logs      map[string]*os.File // by process name
	running   map[int]string      // process ID to name
	mounted   []string            // mount points to detach at the end, in the order they were made
}

// run sets the node up and serves commands until the input ends.
func (n *node) run(input *json.Decoder) error {
	if err := unix.Sethostname([]byte(n.spec.Hostname)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	// The logs lie outside the node and may be out of sight once its own folders are mounted.
	if err := n.openLogs(); err != nil {
		return err
	}
	if err := n.prepareMounts(); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("switching forwarding on: %w", err)
	}

	// Room for more than anybody asks at a time: an unread command would hide the end of the input.
	commands := make(chan nodespec.Command, 64)
	n.abandoned = make(chan struct{})
	go func() {
		defer close(commands)
		defer close(n.abandoned)
		receive(input, commands)
	}()
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)

	n.running = map[int]string{}
	for _, process := range n.spec.Processes {
		if err := n.start(process); err != nil {
			return err
		}
	}
	for {
		select {
		case <-children:
			n.reap()
		case command, more := <-commands:
			if !more {
				return nil
			}
			n.obey(command)
		}
	}
}

// openLogs opens the log of every process.
func (n *node) openLogs() error {
	n.logs = map[string]*os.File{}
	for _, process := range n.spec.Processes {
		log, err := os.OpenFile(process.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("opening the log of %s: %w", process.Name, err)
		}
		n.logs[process.Name] = log
	}
	return nil
}

// receive forwards commands until the input ends or makes no sense.
func receive(input *json.Decoder, commands chan<- nodespec.Command) {
	for {
		var command nodespec.Command
		if err := input.Decode(&command); err != nil {
			if !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, "reading a command:", err)
			}
			return
		}
		commands <- command
	}
}

// obey carries out one command and reports the outcome.
func (n *node) obey(command nodespec.Command) {
	for _, process := range n.spec.Processes {
		if process.Name != command.Process {
			continue
		}
		if command.Verb == nodespec.Stop {
			n.stop(process.Name)
			return
		}
		if err := n.start(process); err != nil {
			n.report(nodespec.Event{Process: process.Name, Error: err.Error()})
		}
		return
	}
	n.report(nodespec.Event{Error: fmt.Sprintf("there is no process %q", command.Process)})
}

// start starts a process and waits until it is ready.
func (n *node) start(process nodespec.Process) error {
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer func() { _ = nothing.Close() }()

	if slices.Contains(slices.Collect(maps.Values(n.running)), process.Name) {
		return fmt.Errorf("%s is running", process.Name)
	}
	log := n.logs[process.Name]
	// Not os/exec: process 1 collects every child itself, and two waiters would steal from each other.
	pid, err := syscall.ForkExec(process.Args[0], process.Args, &syscall.ProcAttr{
		Dir:   "/",
		Env:   process.Env,
		Files: []uintptr{nothing.Fd(), log.Fd(), log.Fd()},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return fmt.Errorf("starting %s: %w", process.Name, err)
	}
	n.running[pid] = process.Name

	deadline := time.Now().Add(readyTimeout)
	for {
		err := probe(process)
		if err == nil {
			break
		}
		if n.reap(); n.running[pid] == "" {
			return fmt.Errorf("%s ended before it was ready", process.Name)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready: %w", process.Name, err)
		}
		select {
		case <-n.abandoned:
			return fmt.Errorf("the node was ended before %s was ready", process.Name)
		case <-time.After(probeInterval):
		}
	}
	n.report(nodespec.Event{Process: process.Name, Running: true})
	return nil
}

// probe returns an error while a process is not ready.
func probe(process nodespec.Process) error {
	if process.CRI != "" {
		return probeRuntime(process.CRI)
	}
	client := &http.Client{Timeout: probeTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(process.Health)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return errors.Join(err, response.Body.Close())
}

// probeRuntime fails while a runtime does not answer. Accepting connections is not enough:
// while recovering containers it refuses every call, and a kubelet would give up.
func probeRuntime(socket string) error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	_, err = runtimeapi.NewRuntimeServiceClient(connection).Version(ctx, &runtimeapi.VersionRequest{})
	return errors.Join(err, connection.Close())
}

// stop kills a process, waits for its end and reports it. Its children keep running.
func (n *node) stop(name string) {
	for pid, running := range n.running {
		if running != name {
			continue
		}
		delete(n.running, pid) // it does not end unasked
		_ = syscall.Kill(pid, syscall.SIGKILL)
		for {
			ended, err := syscall.Wait4(pid, nil, 0, nil)
			if ended == pid || !errors.Is(err, syscall.EINTR) {
				break
			}
		}
	}
	n.report(nodespec.Event{Process: name})
}

// reap collects all ended children.
func (n *node) reap() {
	for n.collect() {
	}
}

// collect collects one child and reports one that ended unasked. It is false without a
// child.
func (n *node) collect() bool {
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	if errors.Is(err, syscall.EINTR) {
		return true
	}
	if pid <= 0 {
		return false
	}
	if name, ours := n.running[pid]; ours {
		delete(n.running, pid)
		n.report(nodespec.Event{Process: name, Error: ending(status)})
	}
	return true
}

// ending says how a process ended.
func ending(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "ended by signal: " + status.Signal().String()
	}
	return fmt.Sprintf("ended with status %d", status.ExitStatus())
}

// report tells the owner, if there is one.
func (n *node) report(event nodespec.Event) {
	_ = n.events.Encode(event)
}

// end kills every process of the node, waits for them and removes the node's remains.
func (n *node) end() error {
	clear(n.running) // from here on they end on demand
	for {
		// -1 is every process of this namespace but the caller.
		killed := syscall.Kill(-1, syscall.SIGKILL)
		if errors.Is(killed, syscall.ESRCH) {
			break
		}
		n.thaw()
		if !n.collect() {
			time.Sleep(time.Millisecond)
		}
	}
	n.reap()

	for i := len(n.mounted) - 1; i >= 0; i-- {
		if err := unix.Unmount(n.mounted[i], unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmounting %s: %w", n.mounted[i], err)
		}
	}
	return n.spec.State.Remove()
}

// thaw wakes frozen processes: in cgroup v1 they do not die of SIGKILL. A runtime killed
// while changing a container's limits can leave one.
func (n *node) thaw() {
	for _, cgroup := range n.spec.State.Cgroups {
		_ = filepath.WalkDir(cgroup, func(name string, _ os.DirEntry, _ error) error {
			if filepath.Base(name) == "freezer.state" {
				_ = os.WriteFile(name, []byte("THAWED"), 0o644)
			}
			return nil
		})
	}
}
