// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package environment

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// Own labels one test's nodes, with its namespace as value, and is the key of their taint
// against others' pods: these would be lost with the node.
const Own = "e2e"

// OwnNode adds a simulated node for the test, and removes it at the end. Pods get there
// with a node selector and a toleration of Own, or by name.
func (n *Namespace) OwnNode(name string, labels map[string]string) string {
	n.t.Helper()
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[Own] = n.Name
	err := n.Nodes.Add(n.t.Context(), name, labels, corev1.Taint{Key: Own, Value: "own", Effect: corev1.TaintEffectNoSchedule})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		if err := n.Nodes.Remove(context.WithoutCancel(n.t.Context()), name); err != nil {
			n.t.Logf("removing node %s: %v", name, err)
		}
	})
	return name
}
