// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package restart decides what the daemon of a node does for ContainerRecreateRequests: which request for a pod is next, which container is
// stopped next, and how far each container is.
//
// What it promises:
//
//   - Requests for one pod are carried out one at a time, and the next one begins as soon as the current one has ended.
//   - A container is stopped only after the status says which instance of it shall be stopped. So if the daemon or the runtime fails in between,
//     only this instance can be stopped afterwards, never its successor.
//   - Instances are distinguished by their IDs, never by times.
//   - A container that its pod does not start again is not waited for, be it by its restart policy or because the pod has ended.
package restart
