// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package rundir

// unmountBeneath does nothing: only Linux runs real nodes, which mount.
func unmountBeneath(string) error {
	return nil
}
