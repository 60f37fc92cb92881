// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package nodespec

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// State names everything of a node that outlives its processes. Mounts, network interfaces
// and namespaces do not: they end with the last process.
type State struct {
	// Folder holds all files of the node.
	Folder string `json:"folder"`
	// Cgroups are the control groups of the node, one for each hierarchy.
	Cgroups []string `json:"cgroups"`
	// Lock is the file leading to all this. It lies beside the folder.
	Lock string `json:"lock"`
}

// cgroupTimeout is how long an emptied control group may take to become removable:
// the kernel detaches dead processes from it in the background.
const cgroupTimeout = 5 * time.Second

// Remove deletes the control groups, the folder and, if this worked, the lock file. It
// skips missing parts, so it can be repeated, by several processes. No process of the node
// may be left.
func (s State) Remove() error {
	var failures []error
	for _, cgroup := range s.Cgroups {
		if err := removeCgroup(cgroup); err != nil {
			failures = append(failures, err)
		}
	}
	// A mount below the folder could lead to others' files.
	if mounts, err := MountsBelow(s.Folder); err != nil || len(mounts) > 0 {
		return errors.Join(append(failures, err, fmt.Errorf("%s is kept: %d mounts are below it %v", s.Folder, len(mounts), mounts))...)
	}
	if err := errors.Join(append(failures, os.RemoveAll(s.Folder))...); err != nil {
		return err
	}
	if err := os.Remove(s.Lock); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// The folder of all nodes goes with the last one; while there are others, it stays.
	_ = os.Remove(filepath.Dir(s.Folder))
	return nil
}

// removeCgroup deletes a control group and all below it, children first.
func removeCgroup(path string) error {
	var groups []string
	err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed by somebody else meanwhile
		}
		if err == nil && entry.IsDir() {
			groups = append(groups, name)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("listing control groups: %w", err)
	}
	deadline := time.Now().Add(cgroupTimeout)
	for i := len(groups) - 1; i >= 0; i-- {
		for {
			err := syscall.Rmdir(groups[i])
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
			if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
				return fmt.Errorf("removing control group %s: %w", groups[i], err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	return nil
}

// MountsBelow lists the mount points at or below a folder, visible to this process.
func MountsBelow(folder string) ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()

	var found []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		// The fifth field is the mount point, with blanks written as \040.
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		point := strings.ReplaceAll(fields[4], `\040`, " ")
		if point == folder || strings.HasPrefix(point, folder+"/") {
			found = append(found, point)
		}
	}
	return found, lines.Err()
}
