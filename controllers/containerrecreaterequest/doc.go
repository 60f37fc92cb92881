// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package containerrecreaterequest manages the operator's part of ContainerRecreateRequests: orders to restart containers of a running pod
// in place. The daemon of the pod's node does the rest: internal/daemon/recreate.
//
// Promises:
//
//   - A request ends: with its containers, with its pod, at its deadline, or when no daemon takes it up.
//   - A pod that a request has taken out of service returns to service when the request has ended, in whatever way, or is deleted. A finalizer
//     ensures it.
//   - The operator changes what the daemon has written to a status only when it ends a request.
//
// Triggers of a pass: a changed request, its status included; its pod; the clock, for deadlines.
//
// Read it in the order of a pass: controller.go, observe.go, package plan, and last watch.go.
package containerrecreaterequest
