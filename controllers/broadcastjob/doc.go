// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package broadcastjob manages BroadcastJobs: a pod run to completion on every fitting node.
//
// Promises:
//
//   - Every node gets at most one pod at a time, and none after its pod has ended, whatever becomes of that pod, the operator or
//     the node's labels, taints and cordons. A recreated node is another one.
//   - At most parallelism pods are at work, except those there before it was lowered.
//   - A failed job ends once no pod is at work; an ended job is only ever deleted.
//   - A job being deleted only gets its status.
//
// Triggers of a pass: a changed job; its pods; for unfinished jobs, nodes joining, leaving, or changing
// in fit; the clock, for deadlines. Ownership goes by the controller's UID, in any API version.
//
// Never touched: pods of other controllers, ended pods, nodes, and the job's spec.
//
// Read it in the order of a pass: controller.go, the whole pass; observe.go, the
// reads; package plan, the pure decisions; and last watch.go, the jobs of a node.
package broadcastjob
