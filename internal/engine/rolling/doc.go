// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package rolling moves a native Deployment in batches, with the Deployment controller making the pods.
//
// While a batch moves, the Deployment is unpaused, and its minReadySeconds is so large that no new pod ever counts as available. Then
// the Deployment controller keeps as many new pods as there is room for, and takes no old one; we take the old ones, by lowering their
// ReplicaSets. Each one that goes is answered by one new pod. If we stop, everything stands still.
//
// Between batches the Deployment is paused, with the numbers of its user. ADR 0035 has the proof.
package rolling
