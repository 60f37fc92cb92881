// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides which ImagePullJobs an ImageListPullJob has. It is pure: the time is in the snapshot.
//
// Read it in this order: spec.go, what the API says; child.go, what is known of an ImagePullJob; plan.go, which there should be; status.go,
// what the user is told.
package plan
