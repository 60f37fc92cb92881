// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// newNamespaces makes a process the first one of a node.
func newNamespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Setpgid:    true,
	}
}

// cgroupsAreV2 is true for the unified hierarchy alone. Beside controllers of version 1 it
// counts as version 1.
func cgroupsAreV2() (bool, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(cgroupRoot, &stat); err != nil {
		return false, fmt.Errorf("looking at %s: %w", cgroupRoot, err)
	}
	return stat.Type == unix.CGROUP2_SUPER_MAGIC, nil
}

// onOverlay is true for folders on an overlay file system, as in most containers.
func onOverlay(folder string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(folder, &stat) == nil && stat.Type == unix.OVERLAYFS_SUPER_MAGIC
}
