// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package restart decides for ContainerRecreateRequests on a node: the next request of a pod, the
// next container to stop, and the progress of each container.
//
// What it promises:
//
//   - Requests for one pod are carried out one at a time, and the next one begins as soon as the
//     current one has ended.
//   - A container is stopped only after the status names the instance to stop. So after a failure
//     in between, only this instance can be stopped, never its successor.
//   - Instances are distinguished by their IDs, never by times.
//   - Nobody waits for a container without a next start, by its restart policy or because the pod
//     has ended.
package restart
