// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodepodprobe manages NodePodProbes: it lists the probes PodProbeMarkers define for a node's pods, and
// writes the node daemon's results to these pods.
//
// Promises:
//
//   - A node's list changes in one write, and so does a pod. Nothing is written while nothing changes.
//   - Without new results a pod is never written.
//   - A deselected pod loses the labels and annotations from probes of existing markers, and those of removed probes,
//     listed on the pod itself. Its conditions stay.
//   - The list never exceeds the limit of the API server, and no namespace uses another's share. Probes without room are reported.
//
// Triggers of a pass: a changed NodePodProbe, its status included; PodProbeMarkers, for their pods' nodes;
// selected pods; its node.
//
// Read it in the order of a pass: controller.go; observe.go; package plan, the pure decisions, with package
// probing of the engine; and last watch.go.
package nodepodprobe
