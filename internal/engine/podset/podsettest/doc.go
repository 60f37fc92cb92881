// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podsettest tests planners without a cluster. A State is the state of a simulated cluster: one workload with real pods, claims and
// nodes. Actions of a plan change it as the API server and the executor would, and moves of its Cluster change it as kubelets, users and
// faults would.
//
//   - A Story tells one rollout: plan and cluster take turns until the state rests, and what happened is compared with a golden
//     file. The same story is told again in seeded random orders.
//   - A Simulation goes step by step, as a test says: passes, kubelets and users take turns, on a clock that runs. Tables and stories of the kinds
//     are written on it; what happened is compared with a golden file.
//   - An Exploration visits every state that can be reached: by each action of a plan alone, by each half of an action that takes
//     two requests, by the whole plan, by every move of the cluster and by every change of the user, in any order. It then shows
//     that the goal can be reached from every one of them, and that a state in which nothing is planned leaves nothing undone.
//     Those that take minutes are explored only where EXPLORE is full.
//   - An Invariant holds in every step of both. The ones that all workloads share are written once, here.
//
// # Time
//
// The clock stands still at Now. A time in a state is either Now or Long before it. A cluster with a clock has the move "time
// passes", which turns the one into the other on one pod; without a clock this happens by itself at once. So the number of
// states stays finite, and every order in which deadlines can pass is visited.
//
// # Nodes
//
// Where Cluster.Nodes names nodes, a State has nodes that join, leave, are cordoned, lost, or re-created under the same name with another UID;
// these moves are faults and count against the Budget. What a kubelet does happens only where the node's kubelet answers, a pod starts on the
// node that its affinity or its spec names, or on each that it may be scheduled to, and a pod whose node is gone is collected. Slots can be
// nodes (SlotOfNode), with two pods of one slot during a surge (AtMostOnePodPerSlot, AtMostUnavailableSlots).
//
// # Names that would never repeat
//
// UIDs follow from names, container IDs say only whether a container is the one before or the present one, and generations are
// numbered again in each step. Two states that differ only in such names are one.
//
// # What makes explorations small
//
// Three things make states one. That none of them loses a state is shown by exploring small sets both ways: CompareWithPlain and
// CompareWithNames.
//
//   - How many faults and changes may still come is no part of a state. What is planned there, whether it is right and whether a
//     goal can be reached without faults does not depend on it. So a state is planned in once, and visited again only with a Budget
//     that no earlier one covers, to follow up what that one allows.
//   - What no decision can depend on is left out of pods: all but the name of a terminating one, how far a failed one had
//     come, the record of an update in place that is over, why a pod is not ready, and whether its containers are while it is not.
//   - Names of pods can mean nothing: then states are sorted, and planning is done in every order that the names of living pods could
//     have. Decisions look at names only to choose among equals, so this is what any names would lead to. A set may name a pod all the
//     same: that is part of what the pod is. Where a state has more orders than MaxOrders, those are planned in that let every pod once be
//     the first and once the last, and the result says in how many states it was so.
//
// # Daily and full
//
// What ends in some seconds is explored every day. ExploreEach leaves large cases to full explorations (EXPLORE=full);
// docs/operations/testing.md says what they cover.
package podsettest
