// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NodeVerdict is how an object judges a node.
type NodeVerdict struct {
	// Runs: a pod should run there. Keeps: a pod may stay there. Selected: the object selects the node for an update.
	Runs, Keeps, Selected bool
	// Why is the reason against the node.
	Why string
}

// Judge judges nodes for one object.
type Judge func(*corev1.Node) NodeVerdict

// NodesSeen is what the last pass over an object saw of the nodes.
type NodesSeen struct {
	// Has are the nodes with something of the object.
	Has sets.Set[string]
	// None: no node fits, so the status counts all nodes by the reason.
	None bool
}

// SawNodes notes a pass's view of the nodes.
func (m *Memory) SawNodes(seen NodesSeen) { m.nodes.Store(&seen) }

// nodesSeen is what the last pass over a stored object saw; nil before the first pass.
func (b *Base) nodesSeen(stored client.Object) *NodesSeen {
	memory := b.memories.known(client.ObjectKeyFromObject(stored))
	if memory == nil || memory.uid != stored.GetUID() {
		return nil
	}
	return memory.nodes.Load()
}

// ByNode names the objects for which the change of a node could decide something. judge is nil for an object that no node concerns.
func (b *Base) ByNode(judge func(stored *unstructured.Unstructured) Judge) NodeMapFunc {
	return func(ctx context.Context, before, after *corev1.Node) []types.NamespacedName {
		return b.Concerned(ctx, "", func(stored *unstructured.Unstructured) bool {
			judge := judge(stored)
			return judge != nil && b.nodesSeen(stored).Concerns(judge, before, after)
		})
	}
}

// Concerns says whether the change of a node could decide something: the node comes or goes and matters, or is judged otherwise. before is nil for a node
// that comes, after for one that goes.
func (s *NodesSeen) Concerns(judge Judge, before, after *corev1.Node) bool {
	if s == nil {
		return true // the first pass is yet to come
	}
	matters := func(node *corev1.Node) bool { return s.None || s.Has.Has(node.Name) || judge(node).Runs }
	switch {
	case before == nil:
		return matters(after)
	case after == nil:
		return matters(before)
	case before.UID != after.UID:
		return matters(before) || matters(after)
	}
	was, is := judge(before), judge(after)
	if !s.None {
		was.Why, is.Why = "", ""
	}
	return was != is
}
