// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package realnode

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/internal/filelock"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode/internal/nodespec"
)

const (
	cgroupPrefix = "kruise-node-"
	lockSuffix   = ".lock"
)

// state is a node's files and control groups, and the lock that proves it alive.
//
// Beside each folder a file is locked while the owner or any process of the node lives. It
// is made first and removed last, so it leads to all remains.
type state struct {
	nodespec.State
	cgroup string // its name below the root of each hierarchy
	lock   *filelock.Lock
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

// describe names the parts of the node with the ID.
func describe(root, id string) (*state, error) {
	cgroup := cgroupPrefix + id
	paths, err := cgroupPaths(cgroup)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(root, id)
	return &state{
		cgroup: cgroup,
		State:  nodespec.State{Folder: folder, Cgroups: paths, Lock: folder + lockSuffix},
	}, nil
}

// newState makes folder and control groups for a node.
func newState() (_ *state, err error) {
	root, err := stateRoot()
	if err != nil {
		return nil, err
	}
	const idLength = 10
	s, err := describe(root, strings.ToLower(rand.Text()[:idLength]))
	if err != nil {
		return nil, err
	}
	if s.lock, err = claim(s.Lock); err != nil {
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

// claim makes a lock file and locks it. Somebody who removes the last node may take the folder away in between, and somebody
// who looks for leftovers may hold the new file for a moment; both pass.
func claim(name string) (*filelock.Lock, error) {
	for {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return nil, err
		}
		lock, err := filelock.Try(name)
		if !errors.Is(err, filelock.ErrHeld) && !errors.Is(err, fs.ErrNotExist) {
			return lock, err
		}
	}
}

func (s *state) sub(name string) string { return filepath.Join(s.Folder, name) }

// remove deletes everything and gives the lock up. When something cannot be deleted, the lock file stays and leads the next
// start here.
func (s *state) remove() error {
	return errors.Join(s.Remove(), s.lock.Release())
}

// removeLeftovers removes dead nodes' remains.
func removeLeftovers() error {
	root, err := stateRoot()
	if err != nil {
		return err
	}
	locks, err := filepath.Glob(filepath.Join(root, "*"+lockSuffix))
	if err != nil {
		return err
	}
	var failures []error
	for _, name := range locks {
		left, err := describe(root, strings.TrimSuffix(filepath.Base(name), lockSuffix))
		if err != nil {
			return err
		}
		left.lock, err = filelock.Try(name)
		if errors.Is(err, filelock.ErrHeld) || errors.Is(err, fs.ErrNotExist) {
			continue // alive, or removed by somebody else
		}
		if err == nil {
			err = left.remove()
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}
