// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package probing decides about the probes of PodProbeMarkers: what of a pod is probed, what a result changes of the pod, and, on the node,
// what a row of results means. The operator and the node daemon share it.
package probing
