// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podprobemarker manages PodProbeMarkers: it creates NodePodProbes for nodes that have none, reports the progress of the probes, and
// releases a deleted marker when no node probes for it any more. Package nodepodprobe writes the lists of the nodes and the results to the pods.
// Virtual nodes have no NodePodProbe: this package writes the results of their providers to the pods.
//
// What it promises:
//
//   - A node gets a NodePodProbe when there is a pod on it to be probed, and not before. It goes with its node.
//   - A marker that is deleted stays until its probes have left the lists of all nodes, and the labels and annotations that it gave the pods.
//   - Pods on virtual nodes carry the labels and annotations of the results that their provider writes, and lose them when they are not chosen any more.
//   - The webhook by which new pods ask a provider for probes is there only for namespaces with markers that need it.
//   - The status says when nobody probes, and why.
//
// What triggers a pass: a changed marker; pods that it selects; NodePodProbes that have probes of it; the clock, for results that are overdue, and every
// few minutes to see whether the node daemon is still there.
//
// Read it in the order of a pass: controller.go; observe.go; package plan, which decides and is pure; watch.go; and last registrar.go, which
// maintains the webhook for pods on virtual nodes.
package podprobemarker
