// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides about a StatefulSet and its status: pure functions of the set and a snapshot
// of its pods.
//
// Read it in this order:
//
//   - spec.go: Parse gives a Spec, once in a pass. Its fields name the API's; a use of a field is
//     its decision.
//   - pods.go: Pods derives the facts about pods; new pods and their names.
//   - plan.go: Plan is the order of the steps.
//   - replicas.go: step 1, finished and missing pods, and step 2, pods with unwanted
//     ordinals.
//   - targets.go: the pods to update, and their order. move.go: step 3, moving them within the
//     limit.
//   - claims.go: creation, owners and growth of volume claims.
//   - status.go: Status, its conditions and their events.
//
// The common part with other kinds is in internal/engine: podset for pods, conditions, claims,
// budget for limits, podorder.
package plan
