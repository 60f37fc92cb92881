// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package containerrecreaterequest handles the operator's part of ContainerRecreateRequests: orders
// to restart containers of a running pod. The node's daemon does the rest: internal/daemon/recreate.
//
// Promises:
//
//   - A request ends: with its containers, its pod, its deadline, or without a daemon.
//   - A pod taken out of service returns once the request ends in any way, or is deleted. A finalizer ensures it.
//   - The operator changes the daemon's status only to end a request.
//
// Triggers of a pass: a changed request or status; its pod; the clock, for deadlines.
//
// Read it in the order of a pass: controller.go, observe.go, package plan, and last watch.go.
package containerrecreaterequest
