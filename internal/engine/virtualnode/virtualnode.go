// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package virtualnode recognizes virtual nodes: a provider runs their pods instead of a kubelet. A
// virtual node has no container runtime, so the node daemon does not work for it.
package virtualnode

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// taintProvider is virtual-kubelet's taint against ordinary pods.
const taintProvider = "virtual-kubelet.io/provider"

// Is recognizes a virtual node by its label type or by the taint of virtual-kubelet.
func Is(node *corev1.Node) bool {
	return Labeled(node.Labels) || slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taintProvider })
}

// Labeled is Is by labels alone. A node with the taint alone is not known by them.
func Labeled(labels map[string]string) bool {
	return labels[appsv1beta1.LabelNodeType] == appsv1beta1.NodeTypeVirtual
}
