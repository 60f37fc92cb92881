// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rundir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A folder mounted into a run by a container runtime must outlive the run.
func TestSweepDetachesMountsBeforeItDeletes(t *testing.T) {
	precious := filepath.Join(t.TempDir(), "precious")
	if err := os.Mkdir(precious, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(precious, "data"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(t.TempDir(), "base")
	dead := newDir(t, base)
	outer := filepath.Join(dead.Path(), "with space")
	if err := os.Mkdir(outer, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", outer, "tmpfs", 0, ""); errors.Is(err, unix.EPERM) {
		t.Skip("skipped, no right to mount: needs root")
	} else if err != nil {
		t.Fatal(err)
	}
	inner := filepath.Join(outer, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(precious, inner, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := dead.owner.Release(); err != nil {
		t.Fatal(err)
	}

	next := newDir(t, base)
	if exists(t, dead.Path()) {
		t.Error("the folder of the dead owner is left")
	}
	if left, err := mountsBeneath(dead.Path()); err != nil || len(left) > 0 {
		t.Errorf("mounts are left: %v, %v", left, err)
	}
	if !exists(t, filepath.Join(precious, "data")) {
		t.Error("a file outside of the run was deleted through a mount")
	}
	if err := next.Remove(); err != nil {
		t.Fatal(err)
	}
}
