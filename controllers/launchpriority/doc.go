// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package launchpriority starts the containers of pods in the order that the pods ask for. It has no kind of its own.
//
// Containers of an ordered pod read keys of the pod's barrier, a ConfigMap, which this controller writes one after the other: see
// internal/engine/launch. Pods of our own workloads are ordered when they are created (internal/kube/launch). All other pods are ordered by a
// policy or a webhook, which are hooks while the feature gate ContainerLaunchPriority is on. The controller watches only pods, and
// reads barriers only when it has to write.
package launchpriority
