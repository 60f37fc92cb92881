// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package realnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const cgroupRoot = "/sys/fs/cgroup"

// cgroupPaths lists the folders of a control group, one for each hierarchy.
func cgroupPaths(name string) ([]string, error) {
	v2, err := cgroupsAreV2()
	if err != nil {
		return nil, err
	}
	if v2 {
		return []string{filepath.Join(cgroupRoot, name)}, nil
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, entry := range entries {
		// cpu may be a link to cpu,cpuacct, listed itself.
		if entry.IsDir() && entry.Name() != "unified" {
			paths = append(paths, filepath.Join(cgroupRoot, entry.Name(), name))
		}
	}
	return paths, nil
}

// makeCgroups creates the control groups of a node.
func makeCgroups(paths []string) error {
	for _, path := range paths {
		if err := os.Mkdir(path, 0o755); err != nil {
			return fmt.Errorf("making a control group: %w", err)
		}
	}
	v2, err := cgroupsAreV2()
	if err != nil {
		return err
	}
	if v2 {
		return enableControllers()
	}
	// A new group of cpuset has neither processors nor memory nodes, and no process can enter it.
	for _, path := range paths {
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(filepath.Dir(path), file))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(path, file), value, 0o644); err != nil {
				return fmt.Errorf("filling the control group: %w", err)
			}
		}
	}
	return nil
}

// enableControllers hands the kubelet's controllers down from the root of cgroup v2. Most
// machines do so already; a new one stays after the node ends, harmlessly.
func enableControllers() error {
	const subtree = cgroupRoot + "/cgroup.subtree_control"
	enabled, err := os.ReadFile(subtree)
	if err != nil {
		return err
	}
	available, err := os.ReadFile(cgroupRoot + "/cgroup.controllers")
	if err != nil {
		return err
	}
	for _, controller := range strings.Fields(string(available)) {
		switch controller {
		case "cpu", "cpuset", "hugetlb", "io", "memory", "pids":
		default:
			continue
		}
		if slices.Contains(strings.Fields(string(enabled)), controller) {
			continue
		}
		if err := os.WriteFile(subtree, []byte("+"+controller), 0o644); err != nil {
			return fmt.Errorf("enabling the control group controller %s (inside a container, "+
				"processes have to be moved out of the root group first): %w", controller, err)
		}
	}
	return nil
}
