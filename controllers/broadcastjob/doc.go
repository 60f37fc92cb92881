// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package broadcastjob manages BroadcastJobs: a pod that runs to completion on every node that fits.
//
// Promises:
//
//   - Every node gets at most one pod at a time, and none after its pod has ended, whatever becomes of that pod, of the operator or of the
//     node's labels, taints and cordons. A node that is created again under its name is another one.
//   - No more pods are at work than parallelism allows, except those that were there before it was lowered.
//   - A job that has failed ends when none of its pods is at work any more, and a job that has ended is only ever deleted.
//   - A job that is being deleted gets its status written and nothing else.
//
// Triggers of a pass: a changed job; its pods; nodes that begin or cease to fit, join or leave, for jobs that have not ended and that they concern; the
// clock, for deadlines. Pods count as the job's by the UID of their controller, whatever API version the reference was written with.
//
// Never touched: pods of other controllers, pods that have ended, nodes, and the spec of the job.
//
// Read it in the order of a pass: controller.go with Reconcile, the whole pass; observe.go, the reads; package plan, which decides
// and is pure; and last watch.go, which says which jobs a node concerns.
package broadcastjob
