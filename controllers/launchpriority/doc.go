// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package launchpriority starts pods' containers in the order the pods ask for. It has no kind of its own.
//
// Containers of an ordered pod read keys of its barrier, a ConfigMap this controller writes key by key: see
// internal/engine/launch. Our own workloads order their pods on creation (internal/kube/launch). A policy or a
// webhook orders all others, hooks of the feature gate ContainerLaunchPriority. The controller watches only
// pods, and reads barriers only before writing.
package launchpriority
