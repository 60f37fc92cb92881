// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// Moves of nodes. They happen to a node and to the pods that are bound to it, and only where Cluster.Nodes names nodes. All of them but
// RecoverNode and CollectOrphan are faults: an exploration has a limited number of them.
const (
	// AddNode: a node of Cluster.Nodes that is not there joins the cluster, ready. Where there was a node of that name before, it has another
	// UID, and the containers of pods that are still bound to the name run anew, not ready.
	AddNode Move = "joins"
	// RemoveNode: the node object is deleted. Nothing runs the pods that are bound to it any more.
	RemoveNode Move = "leaves"
	// RecreateNode: the node leaves and joins again under the same name before anybody looks.
	RecreateNode Move = "is re-created"
	// CordonNode and UncordonNode: the user makes the node unschedulable, and schedulable again.
	CordonNode   Move = "is cordoned"
	UncordonNode Move = "is uncordoned"
	// LoseNode: the kubelet of the node does not answer. Its pods are not ready; nothing about them goes on, not even a deletion.
	LoseNode Move = "is not ready"
	// RecoverNode: the kubelet answers again.
	RecoverNode Move = "is ready again"
	// CollectOrphan: the garbage collector removes a pod whose node is gone. This is a move of the pod.
	CollectOrphan Move = "is collected"
)

func (m Move) isNodeFault() bool {
	switch m {
	case AddNode, RemoveNode, RecreateNode, CordonNode, UncordonNode, LoseNode:
		return true
	default:
		return false
	}
}

// NewNode is a node that is ready and schedulable, and the first one of its name.
func NewNode(name string) *corev1.Node { return newNode(name, 1) }

// newNode is the n-th node of that name.
func newNode(name string, n int) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(fmt.Sprintf("uid-%s-%d", name, n)), Labels: map[string]string{corev1.LabelHostname: name},
		},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// NodeOf is the node that a pod is bound to, or the one that its affinity pins it to; empty if it may run anywhere.
func NodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil || pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// SlotOfNode is the slot of a pod of a workload whose slots are nodes.
func SlotOfNode(pod *corev1.Pod) planning.Slot { return planning.Slot(NodeOf(pod)) }

// NodeReady says that the kubelet of a node answers. A node that is nil does not.
func NodeReady(node *corev1.Node) bool {
	return node != nil && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// Node is the node with this name, or nil.
func (w *State[W]) Node(name string) *corev1.Node {
	if i, found := findNode(w.Nodes, name); found {
		return w.Nodes[i]
	}
	return nil
}

func findNode(nodes []*corev1.Node, name string) (int, bool) {
	return slices.BinarySearchFunc(nodes, name, func(n *corev1.Node, name string) int { return strings.Compare(n.Name, name) })
}

func putNode(nodes *[]*corev1.Node, node *corev1.Node) {
	if i, found := findNode(*nodes, node.Name); found {
		(*nodes)[i] = node
	} else {
		*nodes = slices.Insert(*nodes, i, node)
	}
}

func removeNode(nodes *[]*corev1.Node, name string) *corev1.Node {
	i, found := findNode(*nodes, name)
	if !found {
		return nil
	}
	node := (*nodes)[i]
	*nodes = slices.Delete(*nodes, i, i+1)
	return node
}

// nodeMove is something that can happen to a node.
type nodeMove struct {
	node string
	move Move
}

// nodeMoves are what can happen to nodes next, sorted by node.
func nodeMoves[W any](c Cluster, w *State[W]) []nodeMove {
	var moves []nodeMove
	for _, name := range c.Nodes {
		node := w.Node(name)
		if node == nil {
			moves = append(moves, nodeMove{name, AddNode})
			continue
		}
		moves = append(moves, nodeMove{name, RemoveNode}, nodeMove{name, RecreateNode})
		if node.Spec.Unschedulable {
			moves = append(moves, nodeMove{name, UncordonNode})
		} else {
			moves = append(moves, nodeMove{name, CordonNode})
		}
		if NodeReady(node) {
			moves = append(moves, nodeMove{name, LoseNode})
		} else {
			moves = append(moves, nodeMove{name, RecoverNode})
		}
	}
	return moves
}

// doNode makes a move happen to a node of the state.
func doNode[W any](w *State[W], c Cluster, m nodeMove) error {
	if !slices.Contains(nodeMoves(c, w), m) {
		return fmt.Errorf("%s cannot happen to node %s", m.move, m.node)
	}
	switch m.move {
	case AddNode:
		addNode(w, c, m.node)
	case RemoveNode:
		departNode(w, m.node)
	case RecreateNode:
		departNode(w, m.node)
		addNode(w, c, m.node)
	case CordonNode, UncordonNode:
		changeNode(w, m.node, func(node *corev1.Node) {
			node.Spec.Unschedulable = m.move == CordonNode
			setTaint(node, corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule, node.Spec.Unschedulable)
		})
	case LoseNode:
		setNodeReady(w, m.node, corev1.ConditionUnknown)
		changePodsOf(w, c, m.node, func(pod *corev1.Pod) {
			if condition(pod, corev1.PodReady) == corev1.ConditionTrue {
				setCondition(pod, corev1.PodReady, corev1.ConditionFalse)
			}
		})
	case RecoverNode:
		setNodeReady(w, m.node, corev1.ConditionTrue)
	}
	return nil
}

func addNode[W any](w *State[W], c Cluster, name string) {
	n := 1
	if before := removeNode(&w.departed, name); before != nil {
		number := string(before.UID[strings.LastIndex(string(before.UID), "-")+1:])
		if _, err := fmt.Sscanf(number, "%d", &n); err != nil {
			panic(fmt.Sprintf("the UID of node %s is not one of podsettest: %s", name, before.UID))
		}
		n++
	}
	putNode(&w.Nodes, newNode(name, n))
	if n > 1 {
		changePodsOf(w, c, name, crash)
	}
}

func departNode[W any](w *State[W], name string) {
	node := removeNode(&w.Nodes, name)
	kept := newNode(name, 1)
	kept.UID = node.UID
	kept.DeletionTimestamp = &metav1.Time{Time: Long()}
	putNode(&w.departed, kept)
}

func changeNode[W any](w *State[W], name string, change func(*corev1.Node)) {
	node := w.Node(name).DeepCopy()
	change(node)
	putNode(&w.Nodes, node)
}

func setNodeReady[W any](w *State[W], name string, status corev1.ConditionStatus) {
	changeNode(w, name, func(node *corev1.Node) {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		setTaint(node, corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute, status != corev1.ConditionTrue)
	})
}

func setTaint(node *corev1.Node, key string, effect corev1.TaintEffect, present bool) {
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	if present {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: effect})
	}
	slices.SortFunc(node.Spec.Taints, func(a, b corev1.Taint) int { return strings.Compare(a.Key, b.Key) })
	if len(node.Spec.Taints) == 0 {
		node.Spec.Taints = nil // no taint and an empty list of them are one state
	}
}

// changePodsOf changes the pods that run on a node.
func changePodsOf[W any](w *State[W], c Cluster, node string, change func(*corev1.Pod)) {
	for i, pod := range w.Pods {
		if pod.Spec.NodeName == node && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			pod = pod.DeepCopy()
			change(pod)
			w.Pods[i] = c.normalize(pod)
		}
	}
}

// candidates are the nodes that a pod which does not run yet can start on, by name. It needs a kubelet that answers and, unless the pod was
// bound when it was created, tolerations for all taints that keep pods from being scheduled.
func candidates(nodes []*corev1.Node, pod *corev1.Pod) []string {
	var names []string
	pinned := NodeOf(pod)
	for _, node := range nodes {
		if pinned != "" && pinned != node.Name || !NodeReady(node) {
			continue
		}
		if pod.Spec.NodeName != "" || !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return !tolerates(pod, &t) }) {
			names = append(names, node.Name)
		}
	}
	return names
}

func tolerates(pod *corev1.Pod, taint *corev1.Taint) bool {
	for _, t := range pod.Spec.Tolerations {
		key := t.Key == taint.Key || t.Key == "" && t.Operator == corev1.TolerationOpExists
		value := t.Operator == corev1.TolerationOpExists || t.Value == taint.Value
		if key && value && (t.Effect == "" || t.Effect == taint.Effect) {
			return true
		}
	}
	return false
}

// happens says whether a move of a pod can happen, given the nodes: what a kubelet does needs a node whose kubelet answers. A pod that is
// terminating on a node that is gone is collected, and one that has failed needs no kubelet to be deleted. Start is not judged here, see candidates.
func (c Cluster) happens(nodes []*corev1.Node, pod *corev1.Pod, move Move) bool {
	if len(c.Nodes) == 0 || pod.Spec.NodeName == "" {
		return true
	}
	i, found := findNode(nodes, pod.Spec.NodeName)
	switch move {
	case ObserveSpec, Restart, BecomeReady, SyncReady, Crash, Evict:
		return found && NodeReady(nodes[i])
	case FinishDeletion:
		return !found || NodeReady(nodes[i]) || pod.Status.Phase == corev1.PodFailed
	default:
		return true
	}
}

// onGoneNode says that the pod is bound to a node that does not exist.
func (c Cluster) onGoneNode(nodes []*corev1.Node, pod *corev1.Pod) bool {
	if len(c.Nodes) == 0 || pod.Spec.NodeName == "" {
		return false
	}
	_, found := findNode(nodes, pod.Spec.NodeName)
	return !found
}

// podMoves are what can happen to a pod next in this state. Where a pod could start on several nodes, it starts on the first one. A nil result
// is a pod that is gone.
func podMoves[W any](c Cluster, w *State[W], pod *corev1.Pod) map[Move]*corev1.Pod {
	possible := c.moves(pod)
	if len(c.Nodes) == 0 {
		return possible
	}
	for move := range possible {
		if !c.happens(w.Nodes, pod, move) {
			delete(possible, move)
		}
	}
	if started, can := possible[Start]; can {
		if on := candidates(w.Nodes, pod); len(on) == 0 {
			delete(possible, Start)
		} else {
			started.Spec.NodeName = on[0]
		}
	}
	if c.onGoneNode(w.Nodes, pod) && pod.DeletionTimestamp == nil {
		possible[CollectOrphan] = orphanCollected(pod)
	}
	return possible
}

// orphanCollected is what becomes of a pod whose node is gone: nil, or a terminating pod if a finalizer holds it.
func orphanCollected(pod *corev1.Pod) *corev1.Pod {
	if len(pod.Finalizers) > 0 {
		return deleted(pod)
	}
	return nil
}
