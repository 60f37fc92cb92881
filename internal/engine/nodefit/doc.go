// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodefit says whether a pod may run on a node, for workloads that choose the nodes of their pods themselves.
//
// Compile reads a pod template once; Fit then answers for each node, by the rules of the native DaemonSet controller: spec.nodeName,
// nodeSelector and required node affinity, and taints against tolerations. Fit does not consider free resources, as daemons do not; Room does.
//
// Pin aims a pod at a node, and NodeOf reads from a pod where it was aimed at.
package nodefit
