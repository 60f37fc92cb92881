// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package probing decides about the probes of PodProbeMarkers: the probes of a pod, the effect of a
// result on the pod, and, on the node, when a series of tries makes a result. The operator and the
// node daemon share it.
package probing
