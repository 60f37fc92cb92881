// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package process

import "syscall"

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// Marked finds nothing: only Linux shows the environment of other processes.
func Marked(string) ([]int, error) {
	return nil, nil
}

// KillMarked does nothing: only Linux shows the environment of other processes.
func KillMarked(string) error {
	return nil
}
