// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides an ImageListPullJob's ImagePullJobs. It is pure: the time is in the snapshot.
//
// Read it in this order: spec.go, the API; child.go, an observed ImagePullJob; plan.go, the wanted ones;
// status.go, the report.
package plan
