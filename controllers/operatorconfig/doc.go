// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package operatorconfig applies the Kruise object named cluster to the operator itself.
//
// Log levels change at once. For the rest the operator restarts within its process: standbys as soon as they see the change, the leader
// when all other replicas run with it, or after half a minute without them. The manager finishes the writes it has started and releases
// the lease; another manager, built with the new configuration, takes its place. Another replica, or the same process, goes on within two
// seconds. docs/adr/0012-restart-to-reconfigure.md says why.
//
// It runs on every replica. All of them report which configuration they run with; the leader alone writes the rest of the status. The
// leader also takes the entries of disabled kinds out of the operator's webhook configurations and puts them back, unless the Operator
// Lifecycle Manager owns these.
//
// It never touches workloads or pods. Without the object the operator runs as its flags say; without the object's CRD, nothing here
// watches anything. While that CRD or one of an enabled kind is missing, every replica asks for it every few seconds, and restarts once it
// is there.
package operatorconfig
