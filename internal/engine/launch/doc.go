// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package launch knows the order in which the containers of a pod start.
//
// Each container of an ordered pod reads a key of one ConfigMap, the barrier of the pod, through
// its environment. The kubelet does not create the container before the key is there. There is one
// key for each priority, so keys written one after the other start the containers in order. Keys
// are never removed, so a restarted container does not wait again.
package launch
