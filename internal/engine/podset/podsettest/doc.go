// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podsettest tests planners without a cluster. A State is the state of a simulated cluster: one workload with real pods, claims and
// nodes. Actions of a plan change it as the API server and the executor would, and moves of its Cluster change it as kubelets, users and
// faults would.
//
//   - A Scenario is one rollout: plan and cluster alternate until the state rests, and what happened is compared with a golden file. The same scenario
//     is repeated in seeded random orders.
//   - A Simulation runs the steps that a test calls: passes, kubelets and users alternate, on a clock that runs. Tables and scenarios of the kinds
//     use it; what happened is compared with a golden file.
//   - An Exploration visits every state that can be reached: by each action of a plan alone, by each half of an action that takes
//     two requests, by the whole plan, by every move of the cluster and by every change of the user, in any order. It then shows
//     that the goal can be reached from every one of them, and that a state in which nothing is planned leaves nothing undone.
//     Those that take minutes are explored only by make test-all.
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
// # Refusals
//
// With Refused as a part of the set, the server refuses pods and slots: their actions are planned, and not carried out until their next try is due. Each
// refusal and each change of what is due counts as a change of the user.
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
//   - The number of faults and changes that may still happen is not part of a state: the plan, its correctness, and whether the goal can be
//     reached without faults do not depend on it. So each state is planned once, and visited again only with a Budget that no earlier visit
//     covers, to follow the steps that this Budget allows.
//   - Facts about pods that no decision can depend on are left out: everything but the name and the volumes of a terminating pod, how far a failed pod had come,
//     the record of a finished update in place, why a pod is not ready, and the readiness of the containers of a pod that is not ready.
//   - Names of pods can be meaningless: then states are sorted, and planned in every order that the names of living pods could have. Decisions
//     use names only to choose among equals, so this covers all names. If a set names a pod, that is part of the state of the pod. Where a state
//     has more orders than MaxOrders, only orders are planned in which each pod is first once and last once, and the result says for how many
//     states.
//
// # Daily and full
//
// What ends in a second is explored every day, larger cases by turns. ExploreEach leaves the largest to make test-all;
// docs/contributing/testing.md says what they cover.
package podsettest
