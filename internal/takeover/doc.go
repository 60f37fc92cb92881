// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package takeover lets this operator take a cluster over from OpenKruise. It promises two things:
//
//   - Two managers never act on the same objects: while OpenKruise's Lease is being renewed, the Guard holds every reconciler back.
//   - Nothing is left without a controller by surprise: a takeover waits while objects of kinds exist that nobody would manage.
//
// The Lease says who manages the workloads. Without it, OpenKruise does not run. Once it has expired, the cluster is to be taken over; the
// Guard then deletes it, so that the next start has nothing to wait for. Package preflight reports what blocks a takeover.
package takeover
