// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package virtualnode recognizes virtual nodes, on which a provider instead of a kubelet runs the pods. A virtual node has no container runtime,
// so the node daemon does not work for it.
package virtualnode

import (
	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// taintProvider is the key of the taint by which virtual-kubelet keeps ordinary pods from its nodes.
const taintProvider = "virtual-kubelet.io/provider"

// Is says that a node is a virtual one, by its label type or by the taint of virtual-kubelet.
func Is(node *corev1.Node) bool {
	if Labeled(node.Labels) {
		return true
	}
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Key == taintProvider {
			return true
		}
	}
	return false
}

// Labeled says that a node is a virtual one, as far as its labels say. One with the taint alone is not known by them.
func Labeled(labels map[string]string) bool {
	return labels[appsv1beta1.LabelNodeType] == appsv1beta1.NodeTypeVirtual
}
