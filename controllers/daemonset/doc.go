// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package daemonset manages DaemonSets of the group apps.kruise.io: one pod on every node that fits, moved to a new template in place, by
// another pod after it, or by another pod beside it.
//
// Promises:
//
//   - Which nodes get a pod follows from the same rules as for a native DaemonSet.
//   - No more pods than maxUnavailable are taken out of service for an update; with maxSurge none is before its successor is available.
//   - A pod that is re-created is at the newest revision. The partition and the selector keep existing pods only.
//   - It asks the cache once for nodes and once for pods in a pass; nothing costs nodes times pods.
//
// Triggers of a pass: a changed set; its pods and revisions; pods that nothing controls and that its selector matches; and a node, when it begins or
// ceases to fit, begins or ceases to match the selector of the update, or comes or goes. Heartbeats of nodes and changes of their conditions
// trigger no pass.
//
// Never touched: pods of other controllers, nodes, and the spec of the set. Pods that are bound to a node that is gone are left to the
// garbage collector of pods.
//
// Read it in the order of a pass: controller.go with Reconcile, the whole pass; observe.go, which reads the cache, adopts and releases;
// the pure package plan, the decisions; and last watch.go, the triggers. setup.go takes the options from gates and flags.
package daemonset
