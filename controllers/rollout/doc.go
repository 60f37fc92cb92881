// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout gives workloads new versions in steps.
//
// A label on the workload makes the API server hold each new template: internal/engine/brake. The controller takes the steps. It orders
// each from a BatchRelease, which moves the pods, and reads the answer in its status.
package rollout
