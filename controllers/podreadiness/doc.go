// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podreadiness looks after the readiness gate KruisePodReady of pods of others, such as those of a Deployment whose template lists it. Pods of our own
// workloads are looked after by these. It has no kind of its own, and gives no pod the gate.
//
// What it promises:
//
//   - A pod with the gate gets the condition, True, as soon as it is there: without it the pod would never become ready.
//   - A hold of a ContainerRecreateRequest that is over or gone is given up, also when its finalizer was taken off by force.
package podreadiness
