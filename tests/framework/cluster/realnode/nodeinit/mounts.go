// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// hostSettings are kernel settings without a namespace a kubelet changes. The node gets
// files in their place, so the machine keeps its settings.
func hostSettings() []string {
	return []string{
		"/proc/sys/kernel/keys/root_maxbytes",
		"/proc/sys/kernel/keys/root_maxkeys",
		"/proc/sys/kernel/panic",
		"/proc/sys/kernel/panic_on_oops",
		"/proc/sys/vm/overcommit_memory",
		"/proc/sys/vm/panic_on_oom",
	}
}

// prepareMounts makes the node's view of the file system.
//
//  1. The node's mounts must not reach the host, but the host's unmounts count here: slave.
//     Inside, mounts have to reach containers: shared.
//  2. /proc and /sys show the new process and network namespace.
//  3. The folders of the node take the place of the machine's.
func (n *node) prepareMounts() error {
	for _, propagation := range []uintptr{unix.MS_SLAVE, unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", propagation|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("setting the propagation of mounts: %w", err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if err := n.mountSys(); err != nil {
		return err
	}
	for _, bind := range n.spec.Binds {
		if err := n.bind(bind.Source, bind.Target); err != nil {
			return err
		}
	}
	return n.keepHostSettings()
}

// mountSys mounts a fresh /sys and puts the control groups back on top of it.
func (n *node) mountSys() error {
	const cgroups = "/sys/fs/cgroup"
	keep := filepath.Join(n.spec.State.Folder, "cgroup")
	if err := os.Mkdir(keep, 0o755); err != nil {
		return err
	}
	steps := []struct {
		what           string
		source, target string
		kind           string
		flags          uintptr
	}{
		{"keeping the control groups", cgroups, keep, "", unix.MS_BIND | unix.MS_REC},
		{"detaching the kept control groups", "", keep, "", unix.MS_PRIVATE | unix.MS_REC},
		{"mounting /sys", "sysfs", "/sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"restoring the control groups", keep, cgroups, "", unix.MS_BIND | unix.MS_REC},
	}
	for _, step := range steps {
		if err := unix.Mount(step.source, step.target, step.kind, step.flags, ""); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	if err := unix.Unmount(keep, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("dropping the kept control groups: %w", err)
	}
	// Next to cgroup v1, an empty v2 hierarchy is useless and misleads programs.
	if err := unix.Unmount(filepath.Join(cgroups, "unified"), unix.MNT_DETACH); err != nil && !absent(err) {
		return fmt.Errorf("hiding the unified control groups: %w", err)
	}
	return nil
}

// absent is true if there was nothing to unmount.
func absent(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT)
}

// bind shows source at target, as its own mount: otherwise a mount below target would
// appear below source as well.
func (n *node) bind(source, target string) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("showing %s at %s: %w", source, target, err)
	}
	n.mounted = append(n.mounted, target)
	for _, propagation := range []uintptr{unix.MS_PRIVATE, unix.MS_SHARED} {
		if err := unix.Mount("", target, "", propagation, ""); err != nil {
			return fmt.Errorf("setting the propagation of %s: %w", target, err)
		}
	}
	return nil
}

// keepHostSettings gives the node a copy of each setting it could change for the whole machine.
func (n *node) keepHostSettings() error {
	folder := filepath.Join(n.spec.State.Folder, "settings")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	for _, setting := range hostSettings() {
		value, err := os.ReadFile(setting)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", setting, err)
		}
		file := filepath.Join(folder, filepath.Base(setting))
		if err := os.WriteFile(file, value, 0o644); err != nil {
			return err
		}
		if err := n.bind(file, setting); err != nil {
			return err
		}
	}
	return nil
}
