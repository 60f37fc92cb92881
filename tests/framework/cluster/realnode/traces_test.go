// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode"
)

// traces are a running node's marks on the machine. They can be written to JSON, for a
// process looking for another one's traces.
type traces struct {
	Processes  []process
	Namespaces []string // network namespaces, as links like net:[4026532000]
	Paths      []string // folder and control groups
	Interface  link
	// Last is the latest start of any process before. Numbers of network namespaces are
	// reused: a younger process, of another suite's node, may have one of these.
	Last uint64
}

// link is a network interface. Its name may be reused, its index never.
type link struct {
	Name  string
	Index int
}

// process is told from a later one with the same ID by its start, in clock ticks since the machine started.
type process struct {
	ID    int
	Name  string
	Start uint64
}

// tracesOf collects the traces of a node and fails the test if a running node could not have so few.
func tracesOf(t *testing.T, network *realnode.Network, node *realnode.Node) traces {
	t.Helper()
	found := traces{Paths: append([]string{node.Folder()}, node.Cgroups()...), Interface: link{Name: network.Interface()}}
	children := map[int][]process{}
	for _, id := range processIDs(t) {
		if parent, process, err := readProcess(id); err == nil {
			children[parent] = append(children[parent], process)
			found.Last = max(found.Last, process.Start)
		}
	}
	// Whoever loses its parent in the node becomes a child of the first process, so the tree is complete.
	_, first, err := readProcess(node.PID())
	if err != nil {
		t.Fatal(err)
	}
	for queue := []process{first}; len(queue) > 0; queue = queue[1:] {
		found.Processes = append(found.Processes, queue[0])
		queue = append(queue, children[queue[0].ID]...)
		namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", queue[0].ID))
		if err == nil && !slices.Contains(found.Namespaces, namespace) {
			found.Namespaces = append(found.Namespaces, namespace)
		}
	}

	for _, name := range []string{"nodeinit", "containerd", "containerd-shim", "kubelet", "pause", "guestbook"} {
		if !slices.ContainsFunc(found.Processes, func(p process) bool { return p.Name == name }) {
			t.Errorf("the node does not run %s: %v", name, found.Processes)
		}
	}
	const nodeAndPod = 2
	if len(found.Namespaces) < nodeAndPod {
		t.Errorf("the node has network namespaces %v, want one of its own and one for a pod", found.Namespaces)
	}
	for _, path := range found.Paths {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("a trace of the running node: %v", err)
		}
	}
	if is, err := net.InterfaceByName(found.Interface.Name); err != nil {
		t.Errorf("interface %s: %v", found.Interface.Name, err)
	} else {
		found.Interface.Index = is.Index
	}
	return found
}

// left describes the remaining traces; nil if there are none.
func (tr traces) left(t *testing.T) error {
	t.Helper()
	var failures []error
	for _, was := range tr.Processes {
		if _, is, err := readProcess(was.ID); err == nil && is == was {
			failures = append(failures, fmt.Errorf("process %d %s is left", was.ID, was.Name))
		}
	}
	for _, id := range processIDs(t) {
		namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", id))
		if err != nil || !slices.Contains(tr.Namespaces, namespace) {
			continue
		}
		if _, is, err := readProcess(id); err == nil && is.Start <= tr.Last {
			failures = append(failures, fmt.Errorf("network namespace %s is left, in process %d", namespace, id))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for mount := range strings.Lines(string(mounts)) {
		for _, namespace := range tr.Namespaces {
			if strings.Contains(mount, namespace) {
				failures = append(failures, fmt.Errorf("network namespace %s is left, mounted: %s", namespace, mount))
			}
		}
		if strings.Contains(mount, tr.Paths[0]) {
			failures = append(failures, fmt.Errorf("a mount is left: %s", mount))
		}
	}
	for _, path := range append(slices.Clone(tr.Paths), tr.Paths[0]+".lock") {
		if _, err := os.Lstat(path); err == nil {
			failures = append(failures, fmt.Errorf("%s is left", path))
		}
	}
	if is, err := net.InterfaceByIndex(tr.Interface.Index); err == nil {
		failures = append(failures, fmt.Errorf("interface %s is left", is.Name))
	}
	return errors.Join(failures...)
}

// hostState is a node's possible effects on the machine: default folders of its programs,
// and kernel settings.
func hostState(t *testing.T) string {
	t.Helper()
	state := map[string]string{}
	for _, path := range []string{
		"/etc/cni", "/opt/cni", "/opt/containerd", "/run/containerd", "/run/netns", "/usr/libexec/kubernetes",
		"/var/lib/cni", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/containers", "/var/log/pods",
	} {
		entries, err := os.ReadDir(path)
		state[path] = fmt.Sprint(entries, errors.Is(err, fs.ErrNotExist))
	}
	for _, setting := range []string{
		"kernel/keys/root_maxbytes", "kernel/keys/root_maxkeys", "kernel/panic", "kernel/panic_on_oops",
		"net/ipv4/ip_forward", "vm/overcommit_memory", "vm/panic_on_oom",
	} {
		value, err := os.ReadFile(filepath.Join("/proc/sys", setting))
		if err != nil {
			t.Fatal(err)
		}
		state[setting] = string(value)
	}
	text, err := json.MarshalIndent(state, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func processIDs(t *testing.T) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var ids []int
	for _, entry := range entries {
		if id, err := strconv.Atoi(entry.Name()); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// readProcess reads a process and the ID of its parent.
func readProcess(id int) (parent int, found process, err error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return 0, process{}, err
	}
	// pid (name) state parent ... start is field 22; the name may contain blanks and parentheses.
	head, tail, _ := strings.Cut(string(content), " (")
	end := strings.LastIndex(tail, ")")
	fields := strings.Fields(tail[end+1:])
	const parentField, startField = 1, 19
	if head == "" || len(fields) <= startField {
		return 0, process{}, fmt.Errorf("process %d has the status %q", id, content)
	}
	parent, err = strconv.Atoi(fields[parentField])
	if err != nil {
		return 0, process{}, err
	}
	start, err := strconv.ParseUint(fields[startField], 10, 64)
	return parent, process{ID: id, Name: tail[:end], Start: start}, err
}

// eventually polls until check succeeds, and fails the test with its last error after a
// while.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	const (
		limit    = 60 * time.Second
		interval = 10 * time.Millisecond
	)
	deadline := time.After(limit)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		case <-ticker.C:
		}
	}
}
