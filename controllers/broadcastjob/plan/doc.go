// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides a BroadcastJob's creations and deletions. It is pure.
//
// Read it in this order: spec.go, the API; nodes.go, the state of
// nodes and pods; plan.go, the actions; status.go, the report.
package plan
