// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package takeover lets this operator take a cluster over from OpenKruise. It promises two things:
//
//   - Two managers never act on the same objects: while OpenKruise's Lease is being renewed, the Guard holds every reconciler back.
//   - Nothing loses its controller by surprise: a takeover waits while objects of unmanaged kinds exist.
//
// The Lease names the manager of the workloads. Without it, OpenKruise does not run. Once it has expired, the
// takeover begins, and the Guard deletes it, so the next start need not wait. Package preflight reports
// obstacles to a takeover.
package takeover
