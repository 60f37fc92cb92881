// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podprobemarker manages PodProbeMarkers: it makes the NodePodProbes of nodes that have none, says how far the probes are, and lets a
// marker go when no node works for it any more. What the nodes probe, and what pods carry of it, is the matter of package nodepodprobe.
//
// What it promises:
//
//   - A node gets a NodePodProbe when there is a pod on it to be probed, and not before. It goes with its node.
//   - A marker that is deleted stays until its probes have left the lists of all nodes, and the labels and annotations that it gave the pods.
//   - The status says when nobody probes, and why.
//
// What wakes it: a changed marker; pods that it selects; NodePodProbes that have probes of it; the clock, for results that are overdue, and every
// few minutes to see whether the node daemon is still there.
//
// Read it in the order of a pass: controller.go; observe.go; package plan, which decides and is pure; and last watch.go.
package podprobemarker
