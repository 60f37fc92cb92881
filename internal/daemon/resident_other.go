// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package daemon

// unmapStart does nothing where the daemon is not run but compiled.
func unmapStart() error { return nil }
