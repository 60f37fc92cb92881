// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode/internal/nodespec"
)

const (
	cgroupPrefix = "kruise-node-"
	lockSuffix   = ".lock"
)

// state is what a node has on disk and among the control groups, and the lock that shows that it lives.
//
// Beside each folder lies a file that is locked while the owner or the first process of the node lives. The
// file is made before anything else and removed last, so it leads to all that may be left.
type state struct {
	nodespec.State
	cgroup string // its name below the root of each hierarchy
	lock   *os.File
}

// stateRoot is the folder with the folders of all nodes on this machine.
func stateRoot() (string, error) {
	// The kernel reports mounts by their real paths.
	temporary, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil {
		return "", fmt.Errorf("finding the folder for temporary files: %w", err)
	}
	return filepath.Join(temporary, "kruise-nodes"), nil
}

// describe names what belongs to the node with the given ID.
func describe(root, id string) (*state, error) {
	cgroup := cgroupPrefix + id
	paths, err := cgroupPaths(cgroup)
	if err != nil {
		return nil, err
	}
	return &state{cgroup: cgroup, State: nodespec.State{Folder: filepath.Join(root, id), Cgroups: paths}}, nil
}

// newState makes folder and control groups for a node.
func newState() (_ *state, err error) {
	root, err := stateRoot()
	if err != nil {
		return nil, err
	}
	s, err := describe(root, strings.ToLower(rand.Text()[:10]))
	if err != nil {
		return nil, err
	}
	if s.lock, err = claim(s.Folder + lockSuffix); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.remove())
		}
	}()
	for _, folder := range []string{"", "run", "lib", "lib/tmp", "log"} {
		if err := os.Mkdir(s.sub(folder), 0o755); err != nil {
			return nil, err
		}
	}
	return s, makeCgroups(s.Cgroups)
}

// claim makes a lock file and locks it, as often as a process that removes its last node gets in between.
func claim(name string) (*os.File, error) {
	for {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return nil, err
		}
		file, err := tryLock(name)
		if errors.Is(err, errLocked) || errors.Is(err, os.ErrNotExist) {
			continue // taken for a leftover between its making and its locking, or the folder is gone again
		}
		return file, err
	}
}

func (s *state) sub(name string) string { return filepath.Join(s.Folder, name) }

// remove deletes everything, the lock last.
func (s *state) remove() error {
	if err := s.Remove(); err != nil {
		// The lock file stays and leads the next start here.
		return errors.Join(err, s.lock.Close())
	}
	err := errors.Join(os.Remove(s.lock.Name()), s.lock.Close())
	// Gone with the last node; others may still have theirs there.
	_ = os.Remove(filepath.Dir(s.Folder))
	return err
}

var errLocked = errors.New("locked by another process")

// tryLock takes the lock of a file, which it creates if needed, or returns errLocked.
func tryLock(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errLocked
	}
	if err == nil {
		// Whoever held the lock may have removed the file meanwhile; the lock of a removed file protects nothing.
		err = isCurrent(file, name)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("locking %s: %w", name, err)
	}
	return file, nil
}

// isCurrent returns an error unless the open file is still the one with that name.
func isCurrent(file *os.File, name string) error {
	open, err := file.Stat()
	if err != nil {
		return err
	}
	named, err := os.Stat(name)
	if err == nil && !os.SameFile(open, named) {
		err = os.ErrNotExist
	}
	return err
}

// removeLeftovers removes nodes whose owner and first process are both dead.
func removeLeftovers() error {
	root, err := stateRoot()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var failures []error
	for _, entry := range entries {
		id, isLock := strings.CutSuffix(entry.Name(), lockSuffix)
		if !isLock {
			continue
		}
		left, err := describe(root, id)
		if err != nil {
			return err
		}
		left.lock, err = tryLock(filepath.Join(root, entry.Name()))
		if errors.Is(err, errLocked) || errors.Is(err, os.ErrNotExist) {
			continue // alive, or removed by somebody else
		}
		if err == nil {
			err = left.remove()
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}
