// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package takeover hands a cluster over from OpenKruise to this operator. It promises three things:
//
//   - Two managers never act on the same objects: while OpenKruise's Lease is being renewed, the Guard lets no reconciler begin.
//   - Nothing is left without a controller by surprise: a takeover waits while objects exist of kinds that nobody would look after.
//   - What stands in the way is found, named, and told together with what to do next: see Read and Findings.
//
// The Lease is the mark of who is in charge. A cluster without it is nobody's, or ours. One that lapsed is a cluster to take over;
// the Guard then deletes it, so that the next start has nothing left to wait for.
package takeover
