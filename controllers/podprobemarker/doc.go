// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podprobemarker manages PodProbeMarkers: it creates NodePodProbes for nodes that have none, reports the progress of the probes, and
// releases a deleted marker when no node probes for it any more. Package nodepodprobe writes the lists of the nodes and the results to the pods.
// Virtual nodes have no NodePodProbe, and are skipped.
//
// Promises:
//
//   - A node gets a NodePodProbe when there is a pod on it to be probed, and not before. It goes with its node.
//   - A marker that is deleted stays until its probes have left the lists of all nodes, and the labels and annotations that it gave the pods.
//   - The status says when nobody probes, and why.
//
// Triggers of a pass: a changed marker; pods that it selects; NodePodProbes that have probes of it; the clock, for results that are overdue, and every
// few minutes to see whether the node daemon is still there.
//
// Read it in the order of a pass: controller.go; observe.go; the pure package plan, the decisions; and watch.go.
package podprobemarker
