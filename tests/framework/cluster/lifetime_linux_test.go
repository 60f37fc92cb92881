// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/internal/process"
)

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	c := cluster.StartForTest(t, cluster.Options{})
	if _, err := c.StartProcess("escaping", "/bin/sh", []string{"-c", "setsid sleep 600 & wait"}, nil); err != nil {
		t.Fatal(err)
	}
	// The shell, its child, and the four components.
	const want = 6
	eventually(t, "all programs run", func() error {
		if got := marked(t, c.Dir()); len(got) != want {
			return fmt.Errorf("want %d programs, got %v", want, got)
		}
		return nil
	})

	// The hook asks for an answering API server. It does not count programs: one just
	// replaced by exec, as the shell's child, has no readable environment for a moment.
	whileUp := errors.New("the stop hook did not run")
	c.OnStop(func() error {
		whileUp = errors.Join(c.Exited(), c.Kubectl(context.Background(), "get", "--raw", "/livez").Run())
		return nil
	})
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if whileUp != nil {
		t.Errorf("the cluster was not up while the stop hook ran: %v", whileUp)
	}
	if left := marked(t, c.Dir()); len(left) > 0 {
		t.Errorf("programs are left: %v", left)
	}
	assertGone(t, c.Dir())
	if err := c.Stop(); err != nil {
		t.Errorf("stopping again: %v", err)
	}
	if _, err := c.StartProcess("late", "/bin/true", nil, nil); !errors.Is(err, cluster.ErrStopped) {
		t.Errorf("starting a program after Stop: want %v, got %v", cluster.ErrStopped, err)
	}
}

// TestDeadOwnerLeavesNothing ends the owner in one of three ways a day.
func TestDeadOwnerLeavesNothing(t *testing.T) {
	t.Parallel()
	// It shows if clusters can be started here at all, or skips.
	apiServer.ForTest(t)

	cases := map[string]struct {
		ending string
		end    func(owner *exec.Cmd, stdin io.Closer) error
	}{
		"killed": {endsBySignal, func(owner *exec.Cmd, _ io.Closer) error { return owner.Process.Kill() }},
		"interrupted": {endsBySignal, func(owner *exec.Cmd, _ io.Closer) error {
			return owner.Process.Signal(os.Interrupt)
		}},
		"panicking": {endsByPanic, func(_ *exec.Cmd, stdin io.Closer) error { return stdin.Close() }},
	}
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		if !sample.Has(i, len(cases)) {
			continue
		}
		tc := cases[name]
		t.Run(name, func(t *testing.T) {
			dir, owner, stdin := startOwner(t, tc.ending)
			components := named(t, dir, "etcd", "kube-apiserver")
			if len(components) != 2 {
				t.Fatalf("want etcd and kube-apiserver to run, got %v", components)
			}
			if err := tc.end(owner, stdin); err != nil {
				t.Fatal(err)
			}
			if err := owner.Wait(); err == nil {
				t.Fatal("the owner ended in order")
			}

			// The kernel ends the programs themselves, without any later start.
			eventually(t, "no component is left", func() error {
				if left := named(t, dir, "etcd", "kube-apiserver", "sh"); len(left) > 0 {
					return fmt.Errorf("left: %v", left)
				}
				return nil
			})
			// A later start ends their children, and removes the folder.
			cluster.StartForTest(t, cluster.Options{ControlPlane: cluster.APIServerOnly})
			if left := marked(t, dir); len(left) > 0 {
				t.Errorf("programs are left: %v", left)
			}
			assertGone(t, dir)
		})
	}
}

// startOwner runs this test binary as a cluster's owner, and returns the cluster's folder.
func startOwner(t *testing.T, ending string) (dir string, owner *exec.Cmd, stdin io.Closer) {
	t.Helper()
	owner = exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), endingVariable+"="+ending)
	stdin, err := owner.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var problems strings.Builder
	owner.Stderr = &problems
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// It has ended, unless the test failed before.
		_ = owner.Process.Kill()
	})
	dir, err = bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the owner did not start a cluster: %v\n%s", err, problems.String())
	}
	return strings.TrimSpace(dir), owner, stdin
}

func marked(t *testing.T, dir string) []int {
	t.Helper()
	pids, err := process.Marked(dir)
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

// named returns the cluster's processes with one of the wanted names, as the kernel cuts
// them.
func named(t *testing.T, dir string, wanted ...string) []string {
	t.Helper()
	var names []string
	for _, pid := range marked(t, dir) {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil {
			continue // ended meanwhile
		}
		for _, name := range wanted {
			if strings.TrimSpace(string(content)) == name {
				names = append(names, name)
			}
		}
	}
	return names
}
