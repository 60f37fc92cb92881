// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what an AdvancedCronJob creates and deletes now. It is pure: the time is in the snapshot.
//
// Read it in this order: spec.go, what the API says; adapter.go, what differs between Jobs, BroadcastJobs and ImageListPullJobs; plan.go, which
// run is due and what is done about it; status.go, what the status says.
package plan
