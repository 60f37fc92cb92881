// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides about a CloneSet and its status: pure functions of the set and a snapshot of
// its pods.
//
// Read it in this order:
//
//   - spec.go: Parse gives a Spec, once in a pass. Its fields name the API's; a use of a field is
//     its decision.
//   - pods.go: Pods derives the facts about pods; new pods and their names.
//   - counting.go: how many pods to create, to remove and to move, as arithmetic alone.
//   - plan.go: Plan is the order of the steps. leave, in the same file, is step 1.
//   - scale.go: steps 2 and 3, creating and deleting pods. move.go: step 4, moving pods to another
//     revision.
//   - claims.go: creation, owners and deletion of volume claims.
//   - status.go and deadline.go: Status, its conditions and their events.
//
// The common part with other kinds is in internal/engine: podset for pods, conditions, claims,
// budget for limits, podorder.
package plan
