// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podunavailablebudget counts PodUnavailableBudgets, and has the API server ask about operations on their pods.
//
// Promises:
//
//   - Never more pods are made unavailable than a budget allows, however many clients and replicas act at once.
//   - An allowed deletion that does not happen is given back after 20 seconds.
//   - Without a budget nothing is registered; with some, only ready pods with a budget are asked about.
//
// Triggers of a pass: a changed budget; its pods; its workloads' replicas; the clock, for records, and for workloads nobody watches.
//
// Read it in the order of a pass: controller.go; observe.go; the pure packages plan and engine/disruption, the decisions; hooks.go, the
// registration; podguard, the answers; and watch.go.
package podunavailablebudget
