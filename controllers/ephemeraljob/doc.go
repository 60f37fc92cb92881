// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package ephemeraljob manages EphemeralJobs: ephemeral containers added to running pods.
//
// Promises:
//
//   - A job's containers run, or wait to start, in at most parallelism pods, unless it was lowered.
//   - A job with targets ends when all of them have, as Failed if one has. A pod refused by the server counts as failed
//     after a few tries, and does not hold up the others. A deadline ends every job.
//   - An ended job is only ever deleted.
//   - Containers are never removed and never added twice: the API allows neither.
//
// Triggers of a pass: a changed job; for running jobs, pods in the namespace that begin or cease to match, get a
// node, run, end, or change their ephemeral containers; the clock, for deadlines and the time to live. A
// variable with the job's UID identifies its containers.
//
// Read it in the order of a pass: controller.go with Reconcile; observe.go, the reads; package plan, the pure
// decisions; and last watch.go, from pods to jobs.
package ephemeraljob
