// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides to which pods an EphemeralJob adds its containers now. It is pure: the time is in the snapshot.
//
// Read it in this order: spec.go, what the API says; pods.go, which pods are targets and how far each has come; plan.go, what is done about
// it; status.go, what the status says, and progress.go, why it does not move.
package plan
