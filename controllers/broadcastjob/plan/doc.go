// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides which pods a BroadcastJob creates and deletes now. It is pure: the time is in the snapshot.
//
// Read it in this order: spec.go, what the API says; nodes.go, what the nodes and pods come to, and which nodes are finished; plan.go, what is
// done about it; status.go, what the status says.
package plan
