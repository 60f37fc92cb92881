// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package daemonset manages DaemonSets of the group apps.kruise.io: one pod on every fitting node,
// moved to a new template in place, by another pod after it, or by another pod beside it.
//
// Promises:
//
//   - Nodes get pods by the rules of a native DaemonSet.
//   - An update takes no more pods than maxUnavailable out of service; with maxSurge none before
//     its successor is available.
//   - A re-created pod is at the newest revision. The partition and the selector keep existing pods
//     only.
//   - It asks the cache once for nodes and once for pods in a pass; nothing costs nodes times pods.
//
// Triggers of a pass: a changed set; its pods and revisions; orphans with matching labels; and a
// node, when it begins or ceases to fit, begins or ceases to match the selector of the update, or
// comes or goes. Heartbeats of nodes and changes of their conditions trigger no pass.
//
// Never touched: pods of other controllers, nodes, and the spec of the set. Bound pods of lost
// nodes are left to the garbage collector of pods.
//
// Read it in the order of a pass: controller.go with Reconcile, the whole pass; observe.go, the
// reads, adoptions and releases; the pure package plan, the decisions; and last watch.go, the
// triggers. kind.go takes the options from gates and flags.
package daemonset
