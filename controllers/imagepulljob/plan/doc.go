// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides which nodes of an ImagePullJob pull now. It is pure: the time is in the snapshot.
//
// Read it in this order: spec.go, what the API says; nodes.go, what a node is at; plan.go, what is done about it; status.go, what the user is
// told.
package plan
