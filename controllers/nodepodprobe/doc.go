// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodepodprobe manages NodePodProbes: it makes the list of a node what PodProbeMarkers want of the pods on it, and writes the results of
// the node daemon to these pods.
//
// What it promises:
//
//   - All that changes in the list of a node at a time goes with one write, and all that results change of a pod goes with one write of the
//     pod. Nothing is written while nothing changes.
//   - A pod whose results have not changed is not written, whatever happens to it.
//   - A pod that no marker wants any more loses the labels and annotations that probes of existing markers gave it, and those of probes that were taken out
//     of their markers, which the pod itself names. Its conditions stay.
//   - The list is never longer than what the API server takes, and no namespace takes room that is another's share. What has no room is said.
//
// What wakes it: a changed NodePodProbe, its status included; PodProbeMarkers, for the nodes of the pods that they choose; pods that a marker
// selects; its node.
//
// Read it in the order of a pass: controller.go; observe.go; package plan, which decides and is pure, with package probing of the engine; and
// last watch.go.
package nodepodprobe
