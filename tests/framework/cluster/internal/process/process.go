// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package process runs the programs of a test cluster so none outlives the test.
//
// Each program leads its own process group and has a marker in its environment. Stop ends
// the group. On Linux the kernel also kills the program when this process dies, even by
// SIGKILL, and KillMarked finds its leftover children. On other systems only Stop ends a
// program.
package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// MarkerVariable is the environment variable naming the run's folder, inherited by all
// children.
const MarkerVariable = "KRUISE_CLUSTER_DIR"

// Spec describes a program to run.
type Spec struct {
	// Name is used in errors.
	Name string
	// Path is the executable.
	Path string
	Args []string
	// Env is added to a minimal environment: PATH, HOME, TMPDIR and the marker. The caller's own environment is not
	// passed on, so a proxy or a tool's setting in a developer's shell changes nothing.
	Env []string
	// Dir is the working directory.
	Dir string
	// Marker is the value of MarkerVariable.
	Marker string
	// LogFile receives standard output and standard error, appended. Its folder must exist.
	LogFile string
}

// Process is a started program.
type Process struct {
	spec Spec
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start runs the program. Its end is reported by Done.
func Start(spec Spec) (*Process, error) {
	log, err := os.OpenFile(spec.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", spec.Name, err)
	}
	defer func() { _ = log.Close() }()

	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir = spec.Dir
	cmd.Env = append(baseEnvironment(), MarkerVariable+"="+spec.Marker)
	cmd.Env = append(cmd.Env, spec.Env...)
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.SysProcAttr = attributes()

	p := &Process{spec: spec, cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel ties the parent-death signal to the forking thread, not the process:
		// keep the thread while the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	return p, nil
}

// PID returns the process id, also the id of the group.
func (p *Process) PID() int {
	return p.cmd.Process.Pid
}

// Name returns the program's name.
func (p *Process) Name() string {
	return p.spec.Name
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} {
	return p.done
}

// Err describes how the program ended, with the end of its log. It is nil while the program runs.
func (p *Process) Err() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	reason := "exit status 0"
	if p.err != nil {
		reason = p.err.Error()
	}
	return fmt.Errorf("%s ended: %s\n%s", p.spec.Name, reason, Tail(p.spec.LogFile))
}

// Stop sends SIGTERM to the program's group and SIGKILL after the grace period, or SIGKILL at once when grace is zero.
// It returns when the program has ended. Stopping an ended program is no error.
func (p *Process) Stop(grace time.Duration) error {
	if grace > 0 {
		if err := p.signal(syscall.SIGTERM); err != nil {
			return err
		}
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.done:
		case <-timer.C:
		}
	}
	// Also after a clean end: a member of the group may have stayed.
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// signal sends to the whole group. A missing group, or one of zombies only, is no error.
func (p *Process) signal(signal syscall.Signal) error {
	err := syscall.Kill(-p.PID(), signal)
	if err == nil || errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EPERM) {
		return nil
	}
	return fmt.Errorf("sending %s to %s: %w", signal, p.spec.Name, err)
}

// Tail returns the last lines of a log file, for an error message, or the reason why it
// cannot be read.
func Tail(path string) string {
	const (
		maxBytes = 16 << 10
		maxLines = 15
	)
	file, err := os.Open(filepath.Clean(path))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && info.Size() > maxBytes {
		if _, err := file.Seek(-maxBytes, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(len(lines)-maxLines, 0):], "\n")
}

func baseEnvironment() []string {
	var environment []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			environment = append(environment, name+"="+value)
		}
	}
	return environment
}
