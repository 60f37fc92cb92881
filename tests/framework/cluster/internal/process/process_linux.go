// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	goneTimeout  = 10 * time.Second
	goneInterval = 10 * time.Millisecond
)

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// Marked returns the ids of living processes with the marker, except this one. Zombies are
// not counted.
func Marked(marker string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	want := []byte(MarkerVariable + "=" + marker)
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// An ended or foreign process is unreadable and not ours. A zombie's environment is
		// empty.
		environment, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		if err != nil {
			continue
		}
		for _, variable := range bytes.Split(environment, []byte{0}) {
			if bytes.Equal(variable, want) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids, nil
}

// KillMarked kills every process with the marker and waits until none is left.
func KillMarked(marker string) error {
	deadline := time.Now().Add(goneTimeout)
	ticker := time.NewTicker(goneInterval)
	defer ticker.Stop()
	for {
		pids, err := Marked(marker)
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("killing process %d: %w", pid, err)
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v of %s are still there %s after SIGKILL", pids, marker, goneTimeout)
		}
		<-ticker.C
	}
}
