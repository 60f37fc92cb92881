// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package batchrelease moves workloads to a new version in batches, as their BatchReleases order.
//
// Promises:
//
//   - Never more pods are updated than the batch allows, and never more are taken away than the workload's user allows.
//   - What is done next is stored in the status before it is done, so any pass may be the first one.
//   - A workload gets its own strategy back when its BatchRelease ends or is deleted.
//   - Nothing is asked or written while no batch moves.
//
// Triggers of a pass: a changed BatchRelease; its workload's spec; the status of workloads of this operator; the clock, once a second while
// pods of other workloads move, and for deadlines.
//
// Read it in the order of a pass: controller.go; observe.go, what is read; the pure packages plan and engine/rolling, the decisions; act.go,
// the writes; and watch.go.
package batchrelease
