// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package filelock claims a path for one process with an advisory file lock.
//
// The kernel drops the lock when its holder ends, so a claim is never stale. Children do
// not inherit the lock, unless they are given its File.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrHeld is returned by Try when another holder has the lock.
var ErrHeld = errors.New("lock is held")

// pollInterval is how often Acquire asks for a lock in use.
const pollInterval = 200 * time.Millisecond

// Lock is a held file lock.
type Lock struct {
	file *os.File
}

// Try takes the lock at path, creating the file when it is missing. It returns ErrHeld at once when the lock is taken,
// by another process or by this one.
func Try(path string) (*Lock, error) {
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			_ = file.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, fmt.Errorf("%s: %w", path, ErrHeld)
			}
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		// The last holder may have removed the file between open and lock. Such a lock guards nothing: try again.
		current, err := isCurrent(file, path)
		if err != nil {
			_ = file.Close()
			return nil, err
		}
		if current {
			return &Lock{file: file}, nil
		}
		_ = file.Close()
	}
}

// Acquire waits until the lock at path is free and takes it. onWait, when not nil, is called once if it has to wait.
func Acquire(ctx context.Context, path string, onWait func()) (*Lock, error) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		lock, err := Try(path)
		if !errors.Is(err, ErrHeld) {
			return lock, err
		}
		if onWait != nil {
			onWait()
			onWait = nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the lock %s: %w", path, ctx.Err())
		case <-ticker.C:
		}
	}
}

// Path returns the path of the lock's file.
func (l *Lock) Path() string {
	return l.file.Name()
}

// File returns the open lock file. A child inheriting it holds the lock, too, beyond the
// end of this process.
func (l *Lock) File() *os.File {
	return l.file
}

// Release gives the lock up and leaves its file.
func (l *Lock) Release() error {
	return l.file.Close()
}

// Remove deletes the lock's file and gives the lock up.
func (l *Lock) Remove() error {
	err := os.Remove(l.file.Name())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.file.Close())
}

func isCurrent(file *os.File, path string) (bool, error) {
	opened, err := file.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(opened, named), nil
}
