// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podprobemarker manages PodProbeMarkers: it makes the NodePodProbes of nodes that have none, says how far the probes are, and lets a
// marker go when no node works for it any more. What the nodes probe, and what their pods carry of it, is the matter of package nodepodprobe. Virtual nodes
// have no NodePodProbe: what pods on them carry of the results of their provider is written here.
//
// What it promises:
//
//   - A node gets a NodePodProbe when there is a pod on it to be probed, and not before. It goes with its node.
//   - A marker that is deleted stays until its probes have left the lists of all nodes, and the labels and annotations that it gave the pods.
//   - Pods on virtual nodes carry the labels and annotations of the results that their provider writes, and lose them when they are not chosen any more.
//   - The webhook by which new pods ask a provider for probes is there only for namespaces with markers that need it.
//   - The status says when nobody probes, and why.
//
// What wakes it: a changed marker; pods that it selects; NodePodProbes that have probes of it; the clock, for results that are overdue, and every
// few minutes to see whether the node daemon is still there.
//
// Read it in the order of a pass: controller.go; observe.go; package plan, which decides and is pure; watch.go; and last registrar.go, which keeps the
// webhook apart from all this.
package podprobemarker
