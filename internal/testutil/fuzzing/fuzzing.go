// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package fuzzing holds fuzzers to bounds: whatever text somebody wrote, reading it must not take long or much memory.
package fuzzing

import (
	"runtime"
	"testing"
	"time"
)

const (
	// longest is how long one reading may take. It is far above what any takes, so that a loaded machine does not fail it.
	longest = 5 * time.Second
	// fixed and perByte are how many bytes one reading may allocate: a part of its own, and a part for each byte of the text.
	fixed, perByte = 32 << 20, 16 << 10
)

// Within calls do, which reads a text of size bytes, and fails the test when that takes too long or too much memory.
func Within(t testing.TB, size int, do func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	do()
	spent := time.Since(began)
	runtime.ReadMemStats(&after)
	if allocated, limit := after.TotalAlloc-before.TotalAlloc, uint64(fixed+perByte*size); spent > longest || allocated > limit {
		t.Errorf("%d bytes took %s and %d bytes of memory, allowed are %s and %d", size, spent, allocated, longest, limit)
	}
}
