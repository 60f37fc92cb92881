// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package launch knows in which order the containers of a pod start.
//
// Each container of an ordered pod reads a key of one ConfigMap, the barrier of the pod, through its environment. The kubelet does not create
// the container before the key is there. There is one key for each priority, so writing keys one after the other starts the containers in order.
// Keys are never removed, so a container that restarts does not wait again.
package launch
