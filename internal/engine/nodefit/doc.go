// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodefit says whether a pod may run on a node, for workloads with their own choice of
// nodes.
//
// Compile reads a pod template once; Fit then answers for each node, by the rules of the native
// DaemonSet controller: spec.nodeName, nodeSelector and required node affinity, and taints against
// tolerations. Fit does not consider resources, as daemons do not; Lacks does.
//
// Pin aims a pod at a node, and NodeOf reads the aim from a pod.
package nodefit
