// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package imagepuller

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// endWithChildren has a command that is canceled end together with the processes that it has started. A plugin is often a script, and what hangs is the
// program that it runs: each try would leave one more of them.
func endWithChildren(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error {
		err := syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}
