// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package ephemeraljob manages EphemeralJobs: ephemeral containers that are added to pods which run already.
//
// Promises:
//
//   - Containers of a job run, or wait to start, in no more pods than parallelism allows, unless it was lowered.
//   - A job with targets ends when all of them have, and as Failed if one of them has. A pod to which the server refuses to add the
//     containers counts as failed after a few tries, and does not hold up the others. A deadline ends every job.
//   - A job that has ended is only ever deleted.
//   - Containers are never removed and never added twice: the API allows neither.
//
// Triggers of a pass: a changed job; pods in the namespace that begin or cease to match, get a node, run, end, or change in their ephemeral
// containers, for jobs that have not ended; the clock, for deadlines and the time to live. Containers are known by a variable with the UID of
// their job.
//
// Read it in the order of a pass: controller.go with Reconcile, the whole pass; observe.go, the reads; package plan, which decides
// and is pure; and last watch.go, which says which jobs a pod concerns.
package ephemeraljob
