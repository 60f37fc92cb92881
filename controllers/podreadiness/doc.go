// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podreadiness writes the readiness gate KruisePodReady's condition to others' pods, such as a
// Deployment's with the gate in its template. Our own workloads' controllers do this for their pods. The package
// has no kind of its own, and adds the gate to no pod.
//
// Promises:
//
//   - A new pod with the gate gets the condition with status True at once: without it the pod would never become ready.
//   - The hold of an ended or deleted ContainerRecreateRequest is released, even if its finalizer was removed by force.
package podreadiness
