// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package rundir gives each test cluster a folder and ports, and reclaims dead owners'.
//
// All is beneath one folder per user in the system's temporary folder. A claim is a file
// lock and ends with its owner in any case. New first removes dead owners' folders,
// processes and mounts.
package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/internal/filelock"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/internal/process"
)

const (
	claimedPrefix  = "c-"
	startingPrefix = "starting-"
	portPrefix     = "port-"
	ownerFile      = "owner"

	// startingLimit is the age of a folder without owner to count as left behind.
	startingLimit = time.Minute

	// Ports are below the usual range for outgoing connections and below the node ports, so
	// a restarted component finds its port free.
	firstPort = 20000
	lastPort  = 29999
)

// Dir is a claimed folder.
type Dir struct {
	base  string
	path  string
	owner *filelock.Lock

	mutex sync.Mutex
	ports []*filelock.Lock
}

// New sweeps dead owners' leftovers and claims a new folder, readable by its user only.
func New() (*Dir, error) {
	// The kernel lists mounts by their real path.
	temp, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil {
		return nil, fmt.Errorf("resolving the temporary folder: %w", err)
	}
	return newIn(filepath.Join(temp, "kruise-cluster-"+strconv.Itoa(os.Getuid())))
}

func newIn(base string) (*Dir, error) {
	if err := sweep(base); err != nil {
		return nil, err
	}
	// The folder gets its final name only once it is claimed: a sweep never sees it without its owner.
	starting, err := makeStarting(base)
	if err != nil {
		return nil, fmt.Errorf("creating a run folder: %w", err)
	}
	owner, err := filelock.Try(filepath.Join(starting, ownerFile))
	if err != nil {
		return nil, fmt.Errorf("claiming a run folder: %w", err)
	}
	path := filepath.Join(base, claimedPrefix+strings.TrimPrefix(filepath.Base(starting), startingPrefix))
	if err := os.Rename(starting, path); err != nil {
		return nil, errors.Join(fmt.Errorf("naming a run folder: %w", err), owner.Release(), os.RemoveAll(starting))
	}
	return &Dir{base: base, path: path, owner: owner}, nil
}

// makeStarting creates a folder in base, and base itself as often as the last run of another process removes it.
func makeStarting(base string) (string, error) {
	for {
		if err := os.MkdirAll(base, 0o700); err != nil {
			return "", err
		}
		path, err := os.MkdirTemp(base, startingPrefix)
		if !errors.Is(err, fs.ErrNotExist) {
			return path, err
		}
	}
}

// Path returns the folder's absolute path.
func (d *Dir) Path() string {
	return d.path
}

// Name returns a short name, unique among the user's living runs.
func (d *Dir) Name() string {
	return strings.TrimPrefix(filepath.Base(d.path), claimedPrefix)
}

// Port claims a TCP port, free on every local address, until Remove.
func (d *Dir) Port() (int, error) {
	const attempts = 200
	for range attempts {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		claim, err := filelock.Try(filepath.Join(d.base, portPrefix+strconv.Itoa(port)))
		if errors.Is(err, filelock.ErrHeld) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("claiming port %d: %w", port, err)
		}
		listener, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if err != nil {
			if err := claim.Remove(); err != nil {
				return 0, err
			}
			continue
		}
		d.mutex.Lock()
		d.ports = append(d.ports, claim)
		d.mutex.Unlock()
		return port, listener.Close()
	}
	return 0, fmt.Errorf("no free port found between %d and %d", firstPort, lastPort)
}

// Remove deletes the folder and gives up its ports. Processes must have been stopped before.
func (d *Dir) Remove() error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	var errs []error
	for _, claim := range d.ports {
		errs = append(errs, claim.Remove())
	}
	d.ports = nil
	errs = append(errs, removeTree(d.path), d.owner.Release())
	removeIfEmpty(d.base)
	return errors.Join(errs...)
}

// sweep removes dead owners' leftovers beneath base.
func sweep(base string) error {
	entries, err := os.ReadDir(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing run folders: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		path := filepath.Join(base, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), claimedPrefix):
			errs = append(errs, sweepRun(path))
		case strings.HasPrefix(entry.Name(), startingPrefix):
			if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > startingLimit {
				errs = append(errs, os.RemoveAll(path))
			}
		case strings.HasPrefix(entry.Name(), portPrefix):
			if claim, err := filelock.Try(path); err == nil {
				errs = append(errs, claim.Remove())
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing what an earlier run left: %w", err)
	}
	return nil
}

func sweepRun(path string) error {
	owner, err := filelock.Try(filepath.Join(path, ownerFile))
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil
	case errors.Is(err, fs.ErrNotExist): // another sweep was faster
		return nil
	case err != nil:
		return err
	}
	// The owner file goes with the tree. The lock is held until all is gone: one sweep at a
	// time.
	err = errors.Join(process.KillMarked(path), removeTree(path))
	return errors.Join(err, owner.Release())
}

// removeTree deletes a run folder and first detaches its mounts, or their content would go,
// too.
func removeTree(path string) error {
	if err := unmountBeneath(path); err != nil {
		return err
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	return nil
}

// removeIfEmpty deletes the last run's base folder. A new run creates it again, and a used
// folder cannot be deleted, so the error says nothing.
func removeIfEmpty(base string) {
	_ = os.Remove(base)
}
