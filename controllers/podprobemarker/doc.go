// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podprobemarker manages PodProbeMarkers: it creates missing NodePodProbes,
// reports progress, and releases a deleted marker once no node probes for it. Package
// nodepodprobe writes the lists, and the results to pods. Virtual nodes are skipped.
//
// Promises:
//
//   - A node gets a NodePodProbe with its first pod to probe, and loses it with the node.
//   - A deleted marker stays until its probes have left all lists, and its labels and annotations the pods.
//   - The status says when nobody probes, and why.
//
// Triggers of a pass: a changed marker; its pods; NodePodProbes with its probes;
// the clock, for overdue results and, every few minutes, the node daemon.
//
// Read it in the order of a pass: controller.go; observe.go; the pure package plan, the decisions; and watch.go.
package podprobemarker
