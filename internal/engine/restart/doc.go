// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package restart decides what the daemon of a node does for ContainerRecreateRequests: whose turn it is among those for one pod, which
// container is stopped next, and how far each one is.
//
// What it promises:
//
//   - Of the requests for one pod one is carried out at a time, and the next one begins as soon as it is over.
//   - A container is stopped only after the status says which instance of it shall be stopped. So whatever happens between, to the daemon or to
//     the runtime, the same instance is stopped again or none is, and never its successor.
//   - Instances are told apart by their IDs, never by times.
//   - A container that its pod does not start again is not waited for.
package restart
