// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package filelock

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
)

func TestTry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Try(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Try(path); !errors.Is(err, ErrHeld) {
		t.Fatalf("taking a held lock: want %v, got %v", ErrHeld, err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	second, err := Try(path)
	if err != nil {
		t.Fatalf("taking a released lock: %v", err)
	}
	if err := second.Remove(); err != nil {
		t.Fatal(err)
	}
	third, err := Try(path)
	if err != nil {
		t.Fatalf("taking a removed lock: %v", err)
	}
	if err := third.Remove(); err != nil {
		t.Fatal(err)
	}
}

func TestAcquireWaitsForTheHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	holder, err := Try(path)
	if err != nil {
		t.Fatal(err)
	}
	var waited int
	next, err := Acquire(t.Context(), path, func() {
		waited++
		if err := holder.Remove(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if waited != 1 {
		t.Errorf("the wait was reported %d times, want once", waited)
	}

	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Acquire(ctx, path, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting with a canceled context: want %v, got %v", context.Canceled, err)
	}
	if err := next.Release(); err != nil {
		t.Fatal(err)
	}
}
