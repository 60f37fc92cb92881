// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides about a UnitedDeployment and its status: pure functions of the object and a snapshot of its
// workloads.
//
// Read it in this order:
//
//   - child.go, pods.go: one workload, and one pod, as it was observed.
//   - plan.go: Plan is the order of the steps.
//   - sizes.go: how many pods each subset gets, and which subsets have no room. reserve.go: the same when unschedulable pods get replacements in
//     other subsets.
//   - status.go: Status and its conditions.
//
// What the spec means is in internal/engine/united, because admission needs it, too; how pods are divided is in internal/engine/subset.
package plan
