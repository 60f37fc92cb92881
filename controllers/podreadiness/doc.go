// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podreadiness writes the condition of the readiness gate KruisePodReady to pods of others, such as those of a Deployment whose template lists
// the gate. The controllers of our own workloads do this for their pods. The package has no kind of its own, and adds the gate to no pod.
//
// Promises:
//
//   - A pod with the gate gets the condition with status True as soon as the pod exists: without it the pod would never become ready.
//   - The hold of a ContainerRecreateRequest that has ended or is gone is released, also when its finalizer was removed by force.
package podreadiness
