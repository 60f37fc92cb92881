// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides the pods an EphemeralJob adds its containers to now. It is pure: the time is in the snapshot.
//
// Read it in this order: spec.go, the API; pods.go, the targets and their progress; plan.go, the actions;
// status.go, the status, and progress.go, why it does not move.
package plan
