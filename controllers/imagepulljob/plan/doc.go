// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides the nodes of an ImagePullJob to pull now. It is pure: the time is in the snapshot.
//
// Read it in this order: spec.go, the API; nodes.go, a node's stage; plan.go, the actions; status.go, the report.
package plan
