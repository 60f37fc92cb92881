// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster_test

import (
	"testing"
	"time"
)

// eventually polls until check succeeds, and fails the test with its last error after a
// while.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	const (
		limit    = 30 * time.Second
		interval = 20 * time.Millisecond
	)
	deadline := time.After(limit)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		case <-ticker.C:
		}
	}
}
