// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

// Package resident gives memory back to the system that only the start of a program needed.
package resident

import "runtime/debug"

// ReleaseMemory gives back the heap that is free.
func ReleaseMemory() error {
	debug.FreeOSMemory()
	return nil
}
