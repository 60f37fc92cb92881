// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIs(t *testing.T) {
	for name, tc := range map[string]struct {
		node corev1.Node
		want bool
	}{
		"a node":            {},
		"by its label":      {corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"type": "virtual-kubelet"}}}, true},
		"another label":     {node: corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"type": "edge"}}}},
		"by its taint":      {corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "a"}, {Key: "virtual-kubelet.io/provider", Value: "x"}}}}, true},
		"with other taints": {node: corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node.kubernetes.io/not-ready"}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Is(&tc.node); got != tc.want {
				t.Errorf("virtual: %v", got)
			}
		})
	}
}
