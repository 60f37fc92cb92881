// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides about a UnitedDeployment and its status: pure functions of the object and a
// snapshot of its workloads.
//
// Read it in this order:
//
//   - child.go, pods.go: one observed workload, and one observed pod.
//   - plan.go: Plan is the order of the steps.
//   - sizes.go: the subsets' numbers of pods, and subsets without room. reserve.go: the same when
//     unschedulable pods get replacements in other subsets.
//   - status.go: Status and its conditions.
//
// The meaning of the spec is in internal/engine/united, for admission, too; the division of pods is
// in internal/engine/subset.
package plan
