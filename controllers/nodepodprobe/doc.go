// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodepodprobe manages NodePodProbes: it writes the probes that PodProbeMarkers define for the pods of a node into the list of that
// node, and writes the results of the node daemon to these pods.
//
// Promises:
//
//   - All changes of a node's list are one write, and all changes of a pod are one write. Nothing is written while nothing changes.
//   - A pod whose results have not changed is not written, whatever happens to it.
//   - A pod that no marker selects any more loses the labels and annotations that probes of existing markers gave it, and those of probes that were
//     removed from their markers, which the pod itself lists. Its conditions stay.
//   - The list never exceeds the limit of the API server, and no namespace uses the share of another. Probes without room are reported.
//
// Triggers of a pass: a changed NodePodProbe, its status included; PodProbeMarkers, for the nodes of the pods that they choose; pods that a marker
// selects; its node.
//
// Read it in the order of a pass: controller.go; observe.go; package plan, which decides and is pure, with package probing of the engine; and
// last watch.go.
package nodepodprobe
