// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/nodefit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podorder"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// Compile reads the fitting nodes from the template of a set. The pods have the tolerations of
// daemons beside the template's.
func Compile(set *appsv1beta1.DaemonSet) nodefit.Pod { return compile(&set.Spec.Template.Spec) }

func compile(spec *corev1.PodSpec) nodefit.Pod {
	return nodefit.Compile(spec, nodefit.DaemonTolerations(spec.HostNetwork)...)
}

// Node is a node of the cluster as the set sees it.
type Node struct {
	Name string
	// Object is the node. Read-only.
	Object *corev1.Node
	nodefit.Result
}

// Nodes decides for each node whether it should run a pod, sorted by name.
func Nodes(pod nodefit.Pod, objects []corev1.Node) []Node {
	nodes := make([]Node, len(objects))
	for i := range objects {
		nodes[i] = Node{Name: objects[i].Name, Object: &objects[i], Result: pod.Fit(&objects[i])}
	}
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// Desired is how many of the nodes should run a pod.
func Desired(nodes []Node) int {
	n := 0
	for i := range nodes {
		if nodes[i].ShouldRun {
			n++
		}
	}
	return n
}

// Snapshot is the planner's whole input.
type Snapshot struct {
	podset.Snapshot
	// Nodes are the cluster's, sorted by name.
	Nodes []Node
	// PodName is a name for a new pod on a node.
	PodName func(node string) string
}

// place is a node with its pods.
type place struct {
	// node is nil when the cluster does not have it.
	node *Node
	name string
	// pods are all pods on the node or aimed at it, oldest first.
	pods []*podset.Pod
	// running are the living, unfinished ones.
	running []*podset.Pod
}

// slot is the node as a slot.
func (p *place) slot() planning.Slot { return planning.Slot(p.name) }

// shouldRun: the node exists and should run a pod.
func (p *place) shouldRun() bool { return p.node != nil && p.node.ShouldRun }

// shouldContinue: the node exists and a present pod may stay.
func (p *place) shouldContinue() bool { return p.node != nil && p.node.ShouldContinueRunning }

// free: nothing on the node is in the way of a new pod. A terminating pod is, while it may still
// run: two pods could want the same port or path.
func (p *place) free() bool {
	return !slices.ContainsFunc(p.pods, func(pod *podset.Pod) bool { return !pod.Terminating || !podstate.Finished(pod.Object) })
}

// hasFinished: a finished pod of the node is not deleted yet.
func (p *place) hasFinished() bool {
	return slices.ContainsFunc(p.pods, func(pod *podset.Pod) bool { return !pod.Terminating && podstate.Finished(pod.Object) })
}

// places are the nodes of the cluster and of pods, sorted by name.
func places(s *Snapshot) []*place {
	byName := make(map[string]*place, len(s.Nodes))
	for i := range s.Nodes {
		byName[s.Nodes[i].Name] = &place{node: &s.Nodes[i], name: s.Nodes[i].Name}
	}
	for i := range s.Pods {
		pod := &s.Pods[i]
		name := string(pod.Slot)
		at := byName[name]
		if at == nil {
			at = &place{name: name}
			byName[name] = at
		}
		at.pods = append(at.pods, pod)
	}
	all := slices.SortedFunc(maps.Values(byName), func(a, b *place) int { return cmp.Compare(a.name, b.name) })
	for _, at := range all {
		slices.SortFunc(at.pods, older)
		for _, pod := range at.pods {
			if !pod.Terminating && !podstate.Finished(pod.Object) {
				at.running = append(at.running, pod)
			}
		}
	}
	return all
}

// older orders pods of one node: bound ones first, then by creation, then by name.
func older(a, b *podset.Pod) int {
	return cmp.Or(
		podorder.FalseFirst(a.Object.Spec.NodeName == "", b.Object.Spec.NodeName == ""),
		a.Object.CreationTimestamp.Compare(b.Object.CreationTimestamp.Time),
		cmp.Compare(a.Object.Name, b.Object.Name),
	)
}

// selects: updateStrategy.rollingUpdate.selector matches the node. A missing node has no labels.
func (s *Spec) selects(at *place) bool {
	if s.NodeSelector == nil {
		return true
	}
	return at.node != nil && s.NodeSelector.Matches(labels.Set(at.node.Object.Labels))
}

// leavesByUpdate: the node should run its outdated pod, by the pod's template. Only the update
// takes it away.
func (p *planner) leavesByUpdate(at *place) bool {
	return at.node != nil && slices.ContainsFunc(at.running, func(pod *podset.Pod) bool {
		old := p.s.Revisions[pod.Revision]
		return !p.updated(pod) && old.Template != nil && compile(&old.Template.Spec).Fit(at.node.Object).ShouldRun
	})
}
