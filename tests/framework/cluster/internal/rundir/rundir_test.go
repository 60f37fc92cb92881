// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rundir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestNewSweepsOnlyWhatDeadOwnersLeft(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	living := newDir(t, base)
	dead := newDir(t, base)
	livingPort, deadPort := claimPort(t, living), claimPort(t, dead)
	// The kernel does this when the owner dies.
	if err := dead.owner.Release(); err != nil {
		t.Fatal(err)
	}
	for _, claim := range dead.ports {
		if err := claim.Release(); err != nil {
			t.Fatal(err)
		}
	}

	next := newDir(t, base)
	for path, want := range map[string]bool{
		living.Path(): true,
		livingPort:    true,
		dead.Path():   false,
		deadPort:      false,
	} {
		if got := exists(t, path); got != want {
			t.Errorf("%s: exists is %t, want %t", filepath.Base(path), got, want)
		}
	}

	for _, dir := range []*Dir{living, next} {
		if err := dir.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	if exists(t, base) {
		t.Error("the last run leaves the base folder behind")
	}
}

func TestPortsAreNotHandedOutTwice(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	seen := map[int]bool{}
	for range 2 {
		dir := newDir(t, base)
		for range 50 {
			port, err := dir.Port()
			if err != nil {
				t.Fatal(err)
			}
			if seen[port] {
				t.Fatalf("port %d was handed out twice", port)
			}
			seen[port] = true
		}
		t.Cleanup(func() {
			if err := dir.Remove(); err != nil {
				t.Error(err)
			}
		})
	}
}

func newDir(t *testing.T, base string) *Dir {
	t.Helper()
	dir, err := newIn(base)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// claimPort claims a port and returns the path of the claim.
func claimPort(t *testing.T, dir *Dir) string {
	t.Helper()
	if _, err := dir.Port(); err != nil {
		t.Fatal(err)
	}
	return dir.ports[len(dir.ports)-1].Path()
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}
