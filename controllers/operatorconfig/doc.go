// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package operatorconfig applies the Kruise object named cluster to the operator itself.
//
// Log levels change at once. For the rest the process ends and is started again: the replicas one after another, the leader last. replicas.go has the
// order; docs/adr/0012-restart-to-reconfigure.md says why.
//
// It runs on every replica, and the leader alone writes the status. It never touches workloads. Without the object, or without its CRD, the operator
// runs as its flags say.
package operatorconfig
