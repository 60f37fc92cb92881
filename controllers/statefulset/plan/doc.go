// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what to do for a StatefulSet and what its status says: pure functions of the set and a snapshot of its pods.
//
// Read it in this order:
//
//   - spec.go: Parse gives a Spec, once in a pass. Its fields name those of the API; what a field decides is where its Spec field is used.
//   - pods.go: Pods derives the facts about pods; new pods and their names.
//   - plan.go: Plan is the order of the steps.
//   - replicas.go: step 1, finished and missing pods. scalein.go: step 2, pods whose ordinal the set does not ask for.
//   - targets.go: which pods may be updated, and in what order. move.go: step 3, moving them within the limit.
//   - claims.go: creation, owners and growth of volume claims.
//   - status.go: Status, its conditions and the events about them.
//
// What StatefulSets have in common with other kinds is in internal/engine: podset for pods, conditions, claims, budget for limits, podorder.
package plan
